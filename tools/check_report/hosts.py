"""Processors and memory of the hosts, the load generator's room, and the I/O of each volume."""

from compare import same, same_fields
from figures import MIB, WAITING

# A host is sampled each second; a slice of less than half of that joins a neighbour.
SHORTEST_MS = 500
READS = ["transactional_read", "maintenance_read", "log_read", "replication_read", "backup_read", "housekeeping_read"]
WRITES = ["transactional_write", "log_write", "log_prepare_write", "init_write", "housekeeping_write"]


def weighed(slices):
    """Mean, least and highest share in percent of (length, part, whole): the mean is all parts of all wholes."""
    if not slices:
        return None
    seconds = []
    for slice in slices:
        if seconds and min(seconds[-1][0], slice[0]) < SHORTEST_MS:
            seconds[-1] = [sum(pair) for pair in zip(seconds[-1], slice)]
        else:
            seconds.append(list(slice))
    shares = [100 * part / whole for _, part, whole in seconds]
    return {"mean": 100 * sum(s[1] for s in slices) / sum(s[2] for s in slices), "min": min(shares), "max": max(shares)}


def shares(window, host, part, whole):
    # A slice without length may begin where the next one does.
    wholes = {(point.t_ms, point.interval_ms): point.value for point in window.points([whole], host=host)}
    parts = window.points([part], host=host)
    return [(p.interval_ms, p.value, wholes[p.t_ms, p.interval_ms]) for p in parts if wholes.get((p.t_ms, p.interval_ms))]


def memory(points):
    """A level holds for its slice, however short that is."""
    if not points:
        return None
    levels = [point.value / MIB for point in points]
    mean = sum(level * p.interval_ms for level, p in zip(levels, points)) / sum(p.interval_ms for p in points)
    return {"mean": mean, "min": min(levels), "max": max(levels)}


def check(window, report, name):
    wanted, busy = {}, {}
    for host in sorted({s["host"] for s in window.sources if s["measure"] == "cpu_busy_ns"}):
        program = shares(window, host, "cpu_busy_ns", "cpu_available_ns")
        everything = shares(window, host, "host_cpu_busy_ns", "host_cpu_available_ns")
        thread, late, pressure = ([(p.interval_ms, p.value, p.interval_ms * 1e6)
                                   for p in window.points([counter], host=host) if p.interval_ms]
                                  for counter in ["cpu_busiest_thread_ns", "late_ns", "host_cpu_pressure_ns"])
        wanted[host, "Processors of the host, busy"] = weighed(everything)
        wanted[host, "Processors, busy for the load generator"] = weighed(program)
        wanted[host, "Busiest thread of the load generator"] = weighed(thread)
        wanted[host, "Load generator, late"] = weighed(late)
        wanted[host, "Some task of the host waits for a processor"] = weighed(pressure)
        wanted[host, "Processors of the host, taken by other guests"] = weighed(
            shares(window, host, "host_cpu_stolen_ns", "host_cpu_available_ns"))
        wanted[host, "Memory available"] = memory(window.points(["host_memory_available_bytes"], host=host))
        if program:
            busy[host] = [weighed(part)["mean"] / 100 if part else None for part in [program, thread, everything]]
    wanted = {key: row for key, row in wanted.items() if row}
    told = {(row["host"], row["name"]): row for row in report["host_system"]}
    same(f"host system: {name} rows", sorted(wanted), sorted(told))
    for key in wanted.keys() & told.keys():
        same_fields(f"host system: {name} {key}", wanted[key], told[key])
    generator = report["generator"]
    same(f"generator: {name} known", bool(busy), generator is not None)
    if busy and generator:
        program, thread, everything = busy[generator["host"]]
        most = max(max(share or 0 for share in each) for each in busy.values())
        same(f"generator: {name} least room", most, max(share or 0 for share in busy[generator["host"]]))
        limit = program > 0.9 or (thread or 0) > 0.9 or (everything or 0) > 0.95
        same_fields(f"generator: {name}", {"program_busy": program, "busiest_thread_busy": thread,
                                           "host_busy": everything, "was_limit": limit}, generator)


def volumes(window, report, name):
    """Each file counts on the volume with the longest folder above it; a copy counts where the backup wrote it."""
    run = window.run
    if window.test["kind"] == "restore":
        same(f"volumes: {name} rows", 0, len(report["volumes"]))
        return

    def volume_of(host, path):
        above = [v for v in run.volumes if v["host"] == host and (path + "/").startswith(v["path"].rstrip("/") + "/")]
        return max(above, key=lambda v: len(v["path"]))["name"] if above else None

    files = {(d["host"], d["instance"], d["name"]): d["path"] for d in run.databases}
    files |= {(i["host"], i["name"], None): i["log_path"] for i in run.instances}
    copies = {(b["host"], b["instance"], b["database"]): b["destination"]
              for b in run.of_test("backup", window.test["ordinal"]) if b["destination"]}
    points = {}
    for source in window.sources + window.waits:
        origin = (source["host"], source["instance"], source["database"])
        if origin not in files:
            continue
        measure = source["measure"].removesuffix(WAITING)
        at = files[origin] if measure in READS + WRITES else copies.get(origin, files[origin])
        column = "reads" if measure in READS + ["verify_read"] else \
            "writes" if measure in WRITES + ["backup_write"] else None
        volume = volume_of(source["host"], at)
        if column and volume:
            both = points.setdefault((source["host"], volume), {"reads": ([], []), "writes": ([], [])})
            both[column][measure != source["measure"]].extend(p for p in source["points"] if window.holds(p))
    wanted = {key: {column: window.figures_of(of, key[0], held) for column, (of, held) in both.items()}
              for key, both in points.items()}
    wanted = {key: both for key, both in wanted.items() if any(both.values())}
    told = {(row["host"], row["volume"]): row for row in report["volumes"]}
    same(f"volumes: {name} which", sorted(wanted), sorted(told))
    for key in wanted.keys() & told.keys():
        on = [origin for origin, path in files.items() if (origin[0], volume_of(origin[0], path)) == key]
        databases = sum(1 for origin in on if origin[2] is not None)
        path = next(v["path"] for v in run.volumes if (v["host"], v["name"]) == key)
        same_fields(f"volumes: {name} {key}", {"path": path, "databases": databases, "logs": len(on) - databases}, told[key])
        for column, figures in wanted[key].items():
            same_fields(f"volumes: {name} {key} {column}", figures, told[key][column])
