"""What was looked at on the hosts, from the rows of the environment: a check per host and thing."""

from compare import same, same_fields

# Facts that are checks also where they cast no doubt; every fact that casts doubt is one, and so is every disk counter.
TITLES = {
    ("System", "io_uring"): "Way to the kernel",
    ("System", "Clock source"): "Clock",
    ("System", "Load before the tests"): "Other work on the host",
    ("Volume", "File system"): "File system",
    ("Kernel log", "Compared"): "Kernel log can be compared",
    ("After the tests", "Kernel log"): "Kernel log after the tests",
    ("After the tests", "SMART counters"): "Disk counters after the tests",
}
BUFFERED = "the page cache of the system is part of what is measured"


def unbuffered(run, environment, host):
    """How a host did its I/O, by its own words, else by those of the run; who else did it, and how, is not known."""
    own = [row["value"] for row in environment if (row["host"], row["area"], row["name"]) == (host, "System", "I/O")]
    found = own[0] if own else run.run["world_detail"]
    driver, _, mode = found.partition(", ")
    if driver not in ("io_uring", "polling") or "; " in found or not mode.startswith(("direct", "buffered")):
        return None
    is_good = mode.startswith("direct")
    return {"host": host, "name": "Unbuffered I/O", "outcome": "good" if is_good else "warning", "found": found,
            "note": "" if is_good else BUFFERED}


def of_row(row):
    is_volume = row["area"].startswith("Volume ")
    title = TITLES.get(("Volume" if is_volume else row["area"], row["name"]))
    if title is None and row["severity"] == "info" and row["area"] != "SMART":
        return None
    outcome = {"info": "unknown" if "not readable" in row["value"] else "good"}.get(row["severity"], row["severity"])
    name = f"{row['area']}: {title or row['name']}" if is_volume or title is None else title
    return {"host": row["host"], "name": name, "outcome": outcome, "found": row["value"], "note": row["note"]}


def check(run, report):
    environment = run.table("environment")
    wanted = [unbuffered(run, environment, row["name"]) for row in run.table("host")] if run.run["world"] == "real" else []
    wanted = [row for row in [*wanted, *map(of_row, environment)] if row]
    same("checks: rows", len(wanted), len(report["checks"]))
    for ours, theirs in zip(wanted, report["checks"]):
        same_fields(f"checks: {ours['host']} {ours['name']}", ours, theirs)
