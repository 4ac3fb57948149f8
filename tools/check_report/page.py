"""Compares the tables of report.html with report.json, cell by cell."""

import html.parser

MEASURES = {
    "transactional_read": "Database reads",
    "transactional_write": "Database writes",
    "maintenance_read": "Maintenance reads",
    "log_write": "Log writes",
    "log_prepare_write": "Log preparation",
    "log_read": "Log reads",
    "replication_read": "Replication reads",
    "backup_read": "Backup reads",
    "backup_write": "Backup writes",
    "verify_read": "Checksum reads",
    "init_write": "Initialisation writes",
    "housekeeping_read": "Header and checkpoint reads",
    "housekeeping_write": "Header and checkpoint writes",
    "meta_cache_read": "MetaCache reads",
    "meta_cache_write": "MetaCache writes",
    "batch": "Batches",
    "batch_intended": "Batches, from intended start",
}

IO = ["per s", "KiB", "mean ms", "mean of samples", "worst sample"]
# What the columns of a table are headed with, in order, by the beginning of the heading above the table: every unit is here.
HEADS = {
    "Target and achieved": ["Transactional I/O per s", "Read latency, ms", "Log write latency, ms", "target", "achieved",
                            "of target, %", "mean", "worst judged", "limit", "mean", "worst judged", "limit"],
    "The campaign": ["Transactional I/O per s", "Read ms", "Read p99 ms", "Log write ms"],
    "Conditions of a qualification": ["Measured", "At least", "At most", "Unit"],
    "I/O by ": ["Latency, ms", "Latency percentiles, ms", "Count", "per s", "MiB/s", "KiB each", "mean",
                "mean of samples", "worst sample", "50", "90", "95", "99", "99.9", "99.99", "max"],
    "Transactional I/O, by ": ["Batches", *IO, "p99", *IO],
    "Log I/O, by ": [*IO, "p99", "per s", "KiB", "mean ms"],
    "Background maintenance and log replication, by ": [
        "per s", "KiB", "MiB/s", "mean ms", "per s", "KiB", "KiB, mean of samples", "mean ms"],
    "Total I/O as earlier reports state it, by ": ["per s", "KiB", "ms", "per s", "KiB", "ms"],
    "Disk subsystem, by volume": ["per s", "MiB/s", "mean ms", "per s", "MiB/s", "mean ms"],
    "Where the time of an operation went": [
        "Latency, mean ms", "In the load generator, at most", "In system and storage, at least"],
    "Worst sample of each class": ["Worst sample, ms", "Begins after", "Times the mean"],
    "Steadiness": ["I/O per s", "Writes per s", "Read ms", "Write ms", "Log write ms"],
    "Was the load generator the limit?": ["Busy, %", "Limit, %"],
    "Loads tried": ["Transactional I/O per s", "Read ms", "Log write ms"],
    "Checksum": ["Pages seen", "Of all, %", "Time", "MiB/s"],
    "Backup": ["Of all, %", "Time", "MiB/s"],
    "Restore": ["Of all, %", "Time", "MiB/s"],
    "Soft recovery": ["Logs replayed", "Time", "s per log", "Page reads per log", "Page writes per log",
                      "Log reads per log"],
    "Parts of the storage": ["Busy %", "Reads per s", "MiB/s", "mean ms", "Writes per s", "MiB/s", "mean ms"],
    "Host system": ["Counter, per second", "Mean", "Lowest", "Highest"],
}


class Page(html.parser.HTMLParser):
    """Rows of the bodies and feet of all tables, and the cells of their heads, by section and by the heading above the table."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tables, self.heads, self.text, self.metas = {}, {}, [], {}
        self.section, self.heading, self.row, self.cell, self.head = "", "", None, None, False
        self.title = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "section":
            self.section, self.heading = dict(attributes).get("id", ""), ""
        elif tag == "meta":
            self.metas[dict(attributes).get("name")] = dict(attributes).get("content")
        elif tag in ("h2", "h3", "summary"):
            self.title = ""
        elif tag == "thead":
            self.head = True
        elif tag == "tr" and not self.head:
            self.row = []
        elif tag in ("td", "th") and (self.row is not None or self.head):
            self.cell = ""
        elif tag == "br" and self.head and self.cell is not None:
            self.cell += " "

    def handle_endtag(self, tag):
        if tag in ("h2", "h3", "summary") and self.title is not None:
            self.heading, self.title = ("" if tag == "h2" else self.title), None
        elif tag == "thead":
            self.head = False
        elif tag in ("td", "th") and self.cell is not None:
            cells = self.heads.setdefault((self.section, self.heading), []) if self.head else self.row
            cells.append(" ".join(self.cell.split()))
            self.cell = None
        elif tag == "tr" and self.row is not None:
            self.tables.setdefault((self.section, self.heading), []).append(self.row)
            self.row = None

    def handle_data(self, data):
        if self.title is not None:
            self.title += data
        if self.cell is not None:
            self.cell += data
        self.text.append(data)


def num(value, decimals):
    if value is None:
        return "–"
    text = f"{abs(value):,.{decimals}f}"
    return "−" + text if value < 0 and any(c in "123456789" for c in text) else text


def kib(value):
    return num(None if value is None else value / 1024, 1)


def percent(value):
    return num(None if value is None else value * 100, 1)


def significant(value):
    if value is None:
        return "–"
    size = abs(value)
    if size == 0 or size >= 100:
        return num(value, 0)
    if size >= 1:
        return num(value, 1 if size >= 10 else 2)
    decimals = 3
    while decimals < 6 and size < 10.0 ** -(decimals - 2):
        decimals += 1
    return num(value, decimals)


def planned(value):
    return num(value, 4 if value and abs(value) < 1 else 2)


def size(value):
    if value is None:
        return "–"
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    n = 0
    value = float(value)
    while value >= 1024 and n + 1 < len(units):
        value /= 1024
        n += 1
    return f"{num(value, 0 if n == 0 or value % 1 < 1e-9 else 2)} {units[n]}"


def duration(seconds):
    if seconds is None:
        return "–"
    if seconds < 0.001:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 10 and seconds % 1 > 0.05:
        return f"{seconds:.1f} s"
    whole = int(seconds + 0.5)
    parts = [(whole // 86_400, "d"), (whole // 3_600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s")]
    first = next((n for n, (amount, _) in enumerate(parts) if amount), 3)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first:first + 2] if amount)


def of(figures, field):
    return figures[field] if figures else None


def place(row):
    return row["database"] or row["instance"] or row["host"]


class Check:
    def __init__(self, report, page, same):
        self.report, self.page, self.same = report, page, same
        self.many = len(report["hosts"]) > 1

    def origin(self, row, several=None):
        return ([row["host"]] if (self.many if several is None else several) else []) + [place(row)]

    def table(self, section, heading, rows):
        """Rows as they must be, blanks at the edges of a cell aside."""
        found = self.page.tables.get((section, heading), [])
        rows = [[" ".join(cell.split()) for cell in row] for row in rows]
        what = f"html: {section} {heading or 'first table'}"
        self.same(f"{what} rows", len(rows), len(found))
        for ours, theirs in zip(rows, found):
            self.same(what, " | ".join(ours), " | ".join(theirs))
        if rows:
            self.units(section, heading)

    def units(self, section, heading):
        """The head of a table names its columns and their units, in order."""
        wanted = next((cells for begins, cells in HEADS.items() if heading.startswith(begins)), [])
        cells = iter(self.page.heads.get((section, heading), []))
        self.same(f"units: {section} {heading}", [], [cell for cell in wanted if cell not in cells])

    def head(self):
        rows = []
        for test in self.report["tests"]:
            by = {row["measure"]: row for row in test["measures"]}
            judged = [v["outcome"] for v in test["verdicts"] if v["outcome"] != "info"]
            load = test["throughput"]
            read, log = by.get("transactional_read"), by.get("log_write")
            rows.append([
                str(test["ordinal"]), test["name"], (test["outcome"] or "") + ("" if test["ended"] else " cut off"),
                duration(test["duration_s"]), num(load["transactional_iops"], 1) if load else "",
                num(read["figures"]["latency_ms_mean"] if read else None, 3) if load else "",
                num(read["percentiles"]["p99_ms"] if read else None, 3) if load else "",
                num(log["figures"]["latency_ms_mean"] if log else None, 3) if load else "",
                f"{judged.count('pass')} of {len(judged)}" if judged else "",
            ])
        self.table("", "The campaign", rows)
        self.targets()
        self.table("", "Conditions of a qualification", [
            [c["text"], significant(c["measured"]), significant(c["least"]), significant(c["most"]), c["unit"],
             ("met" if c["met"] else "not met") + (", own rule" if c["weaker"] else ""), c["source"]]
            for c in self.report["verdict"]["conditions"]])
        self.judgements("", self.report["run_verdicts"])
        text = "".join(self.page.text)
        for told in [self.report["verdict"]["headline"], *self.report["verdict"]["reasons"],
                     *self.report["verdict"]["causes"], *self.report["verdict"]["unseen"]]:
            self.same("html: verdict", True, told in text)
        several = self.many
        self.table("configuration", "Databases", [
            [*([d["host"]] if several else []), d["instance"] or "", d["database"] or "", d["path"],
             num(d["page_bytes"] / 1024, 0), size(d["bytes_before"]), size(d["bytes_after"])]
            for d in self.report["databases"]])
        self.table("configuration", "Instances", [
            [*([i["host"]] if several else []), i["instance"], i["log_path"], size(i["log_file_bytes"]),
             size(i["cache_min_bytes"]), size(i["cache_max_bytes"])] for i in self.report["instances"]])
        self.table("events", f"{len(self.report['events'])} recorded", [
            [f"{num(e['t_s'], 1)} s", e["severity"] if e["severity"] != "info" else "", str(e["test"] or ""),
             *([e["host"]] if several else []), e["text"]] for e in self.report["events"]])

    def targets(self):
        """The table of the first page: each load test against its target and its latency limits."""
        rows = []
        for test in self.report["tests"]:
            if not test["throughput"]:
                continue
            achieved = test["throughput"]["transactional_iops"]
            aims = [row["planned"] for row in test["planned"] if row["name"] == "Transactional I/O" and row["planned"]]
            aim = aims[0] if aims else None
            row = [test["name"], num(aim, 1), num(achieved, 1), percent(achieved / aim if aim else None)]
            for measure, rule in [("transactional_read", "read_latency_avg"), ("log_write", "log_write_latency_avg")]:
                means = [m["figures"]["latency_ms_mean"] for m in test["measures"] if m["measure"] == measure]
                judged = [v for v in test["verdicts"] if v["rule"] == rule]
                worst = max((v["measured"] for v in judged if v["measured"] is not None), default=None)
                row += [num(means[0] if means else None, 3), num(worst, 3),
                        significant(judged[0]["limit"] if judged else None)]
            rows.append(row)
        self.table("", "Target and achieved", rows)

    def judgements(self, section, rows):
        """Limits that are broken or not proved stand above those that are kept."""
        kept = [row for row in rows if row["outcome"] in ("pass", "info")]
        broken = [row for row in rows if row not in kept]
        self.table(section, "Limits broken or not proved", self.verdicts(broken))
        self.table(section, "Limits kept, and figures for information", self.verdicts(kept))

    def verdicts(self, rows):
        sign = {"at_most": "≤", "below": "<", "at_least": "≥"}

        def where(v):
            return f"{v['host']}, {place(v)}" if self.many and (v["database"] or v["instance"]) else place(v)

        return [[v["outcome"], v["text"], where(v), significant(v["measured"]),
                 "–" if v["limit"] is None else f"{sign[v['comparison']]} {significant(v['limit'])}", v["unit"]]
                for v in rows]

    def measures(self, rows):
        out = []
        for row in rows:
            f, p = row["figures"], row["percentiles"]
            sized = bool(f["bytes_mean"])
            out.append([
                *([row["host"]] if "host" in row else []), MEASURES.get(row["measure"], row["measure"]), num(f["count"], 0),
                num(f["per_s"], 2), num(f["mib_per_s"], 2) if sized else "", kib(f["bytes_mean"]) if sized else "",
                num(f["latency_ms_mean"], 3), num(f["latency_ms_sample_mean"], 3), num(f["latency_ms_sample_max"], 3),
                *(num(p[q], 2) for q in ["p50_ms", "p90_ms", "p95_ms", "p99_ms", "p99_9_ms", "p99_99_ms"]),
                num(f["latency_ms_max"], 2), num(f["outstanding"], 2),
            ])
        return out

    def io(self, section, test, rows, what):
        by = {row["measure"]: row["figures"] for row in test["measures"]}
        read, write, log, log_read, kept, shipped, batch = (by.get(m) for m in [
            "transactional_read", "transactional_write", "log_write", "log_read", "maintenance_read", "replication_read",
            "batch"])

        def latencies(f, p99=None):
            cells = [num(of(f, "per_s"), 3), kib(of(f, "bytes_mean")), num(of(f, "latency_ms_mean"), 3),
                     num(of(f, "latency_ms_sample_mean"), 3), num(of(f, "latency_ms_sample_max"), 3)]
            return cells if p99 is None else cells + p99

        def short(f, rate=False):
            return [num(of(f, "per_s"), 3), kib(of(f, "bytes_mean")), *([num(of(f, "mib_per_s"), 3)] if rate else []),
                    num(of(f, "latency_ms_mean"), 3)]

        def replicated(f):
            return [num(of(f, "per_s"), 3), kib(of(f, "bytes_mean")), kib(of(f, "bytes_sample_mean")),
                    num(of(f, "latency_ms_mean"), 3)]

        def mixed(f):
            return [num(of(f, "per_s"), 3), kib(of(f, "bytes_sample_mean")), num(of(f, "latency_ms_sample_mean"), 3)]

        if read or write:
            self.table(section, f"Transactional I/O, by {what}", [
                [*self.origin(i), num(i["batches"], 0) if i["batches"] else "",
                 *latencies(i["reads"], [num(i["read_percentiles"]["p99_ms"], 3)]), *latencies(i["writes"])] for i in rows]
                + [["All", num(batch["count"], 0) if batch else "", *latencies(read, [""]), *latencies(write)]])
        if log or log_read:
            self.table(section, f"Log I/O, by {what}", [
                [*self.origin(i), *latencies(i["log_writes"], [num(i["log_write_percentiles"]["p99_ms"], 3)]),
                 *short(i["log_reads"])] for i in rows] + [["All", *latencies(log, [""]), *short(log_read)]])
        if kept or shipped:
            self.table(section, f"Background maintenance and log replication, by {what}", [
                [*self.origin(i), *short(i["maintenance"], True), *replicated(i["replication"])] for i in rows]
                + [["All", *short(kept, True), *replicated(shipped)]])
        if kept and read:
            self.table(section, f"Total I/O as earlier reports state it, by {what}", [
                [*self.origin(i), *mixed(i["all_reads"]), *mixed(i["writes"])] for i in rows])

    def load(self, section, test):
        t, stalls, window = test["throughput"], test["page_fault_stalls"], test["window"]
        rows = [["Transactional I/O", num(t["transactional_iops"], 2), "per s"],
                ["Database reads", num(t["reads_per_s"], 2), "per s"],
                ["Database writes", num(t["writes_per_s"], 2), "per s"],
                ["Reads among them", percent(t["read_share"]), "%"],
                ["Log writes", num(t["log_writes_per_s"], 2), "per s"],
                ["Batches", num(t["batches"], 0), ""], ["Batches", num(t["batches_per_s"], 2), "per s"]]
        if t["database_batches_min"] is not None:
            rows.append(["Batches of a database",
                         f"{num(t['database_batches_min'], 0)} – {num(t['database_batches_max'], 0)}", ""])
        if stalls:
            of_samples = f" of {num(window['samples'], 0)}" if window else ""
            rows += [["Page fault stalls, mean", num(stalls["per_s_mean"], 3), "per s"],
                     ["Page fault stalls, worst sample", num(stalls["per_s_max"], 3), "per s"],
                     ["Samples with a stall", num(stalls["samples_with_stalls"], 0) + of_samples, ""]]
        if test["cache_bytes_max"] is not None:
            rows.append(["Page cache, all instances", size(test["cache_bytes_max"]), ""])
        if t["database_bytes_before"] is not None:
            rows += [["Databases, before", size(t["database_bytes_before"]), ""],
                     ["Databases, after", size(t["database_bytes_after"]), ""]]
        self.table(section, "Throughput", rows)
        generator = test["generator"]
        self.table(section, "Was the load generator the limit?", generator and [
            ["Its busiest thread", percent(generator["busiest_thread_busy"]), "90"],
            ["All its threads, of the processors they may use", percent(generator["program_busy"]), "90"],
            ["Everything on the host", percent(generator["host_busy"]), "95"]] or [])
        self.table(section, "Shape of the load", [
            [row["name"], num(row["measured"], 0 if row["measured"] > 1000 else 2),
             " – ".join(num(row[key], 0 if row["published_min"] > 1000 else 2) for key in ["published_min", "published_max"]),
             row["unit"]] for row in test["load_shape"] if row["measured"] is not None])
        steady = test["steadiness"]
        self.table(section, "Steadiness", steady and [
            [str(n + 1), num(steady["quarter_iops"][n], 1), num(steady["quarter_writes_per_s"][n], 1),
             *(num(steady[f"quarter_{key}_latency_ms"][n], 3) for key in ["read", "write", "log_write"])]
            for n in range(4)] or [])
        self.table(section, "Worst sample of each class", [
            [MEASURES.get(row["measure"], row["measure"]), num(f["latency_ms_sample_max"], 3),
             duration(f["worst_sample_window_s"]), num(f["latency_ms_sample_max"] / f["latency_ms_mean"], 2)]
            for row in test["measures"] for f in [row["figures"]]
            if f["latency_ms_sample_max"] is not None and f["latency_ms_mean"] > 0])
        self.table(section, "Where the time of an operation went", [
            [MEASURES.get(row["measure"], row["measure"]), num(mean, 3), num(row["held_ms"], 3),
             num(mean - row["held_ms"], 3)]
            for row in test["measures"] for mean in [row["figures"]["latency_ms_mean"]] if row["held_ms"] is not None])
        self.io(section, test, test["instances"], "instance")
        if len(test["databases"]) > len(test["instances"]):
            self.io(section, test, test["databases"], "database")

    def statistics(self, section, test):
        headroom = test["headroom"]
        aimed = bool(headroom) and headroom["target_iops"] is not None
        self.table(section, "Loads tried", [
            [str(s["ordinal"]), s["load"], s["outcome"], num(s["iops"], 1), *([percent(s["of_target"])] if aimed else []),
             num(s["read_latency_ms"], 3), num(s["log_write_latency_ms"], 3), s["note"]] for s in test["tuning"]])
        rows = []
        if headroom:
            if aimed:
                rows.append(["Target", num(headroom["target_iops"], 1), "I/O per s"])
            broken = headroom["broken_iops"]
            rows += [["Most that stayed inside all limits", num(headroom["held_iops"], 1), "I/O per s"],
                     ["Least that broke a limit", num(broken, 1), "none did" if broken is None else "I/O per s"]]
            if headroom["beyond_target"] is not None:
                rows.append(["Held beyond the target", percent(headroom["beyond_target"]), "%"])
        self.table(section, "Headroom", rows)
        self.table(section, "Checksum", [
            [*self.origin(c), num(c["files"], 0) if c["files"] else "",
             *(num(c[key], 0) for key in ["pages", "uninitialised_pages", "bad_pages", "correctable_pages",
                                          "wrong_number_pages"]),
             size(c["bytes"]), percent(c["read_share"]), f"{num(c['elapsed_s'], 1)} s", num(c["mib_per_s"], 1)] for c in test["checksums"]])
        restore = test["kind"] == "restore"
        self.table(section, "Restore" if restore else "Backup", [
            [*self.origin(b), size(b["bytes"]), percent(b["read_share"]), f"{num(b['elapsed_s'], 1)} s", num(b["mib_per_s"], 1),
             b["destination"] or "nowhere: read only"] for b in test["backups"]])
        self.table(section, "Replay of the logs since the backup" if restore else "Soft recovery", [
            [*self.origin(r), num(r["logs"], 0), f"{num(r['elapsed_s'], 1)} s", num(r["s_per_log"], 3),
             *([] if restore else [num(r["reads_per_log"], 1), num(r["writes_per_log"], 2), num(r["log_reads_per_log"], 2)]),
             *(num(r["work"][key], 0) if r["work"] else "" for key in [
                 "segments_given_up", "pages_repaired", "transactions_undone"])]
            for r in test["recoveries"]])

    def test(self, test):
        section = f"test-{test['ordinal']}"
        self.judgements(section, test["verdicts"])
        self.table(section, "Planned and achieved", [
            [row["name"], planned(row["planned"]), planned(row["achieved"]), row["unit"]] for row in test["planned"]])
        self.table(section, "Settings", [[row["name"], row["value"]] for row in test["parameters"]])
        self.statistics(section, test)
        self.table(section, "I/O by class", self.measures(test["measures"]))
        self.table(section, "I/O by host", self.measures(test["hosts"]))
        if test["throughput"]:
            self.load(section, test)
        self.table(section, "Parts of the storage", [
            [p["kind"], p["name"], num(p["busy_share"] * 100, 1), num(p["queue_mean"], 2),
             *(cell for kind in ["read", "write"] for cell in [
                 num(p[f"{kind}s"] / p["seconds"], 1), num(p[f"{kind}_bytes"] / p["seconds"] / 2**20, 2),
                 num(p[f"{kind}_latency_ms"], 2)]),
             num(p["cache_hits"], 0), num(p["cache_waits"], 0), num(p["cache_dirty_bytes_max"] / 2**20, 1), p["state"]]
            for p in test["storage_parts"]])
        self.table(section, "Disk subsystem, by volume", [
            [*([v["host"]] if self.many else []), v["volume"], num(v["databases"], 0), num(v["logs"], 0), *(
                cell for f in [v["reads"], v["writes"]] for cell in [
                    num(of(f, "per_s"), 3), num(of(f, "mib_per_s"), 3), num(of(f, "latency_ms_mean"), 3),
                    num(of(f, "latency_ms_sample_max"), 3), num(of(f, "outstanding"), 2)])] for v in test["volumes"]])
        rows = [[*([row["host"]] if self.many else []), row["name"], num(row["mean"], 1), num(row["min"], 1),
                 num(row["max"], 1), row["unit"]] for row in test["host_system"]]
        stalls = test["page_fault_stalls"]
        if stalls and rows:
            rows.append([*(["All"] if self.many else []), "Page fault stalls (by sample)",
                         *(num(stalls[key], 3) for key in ["per_s_mean", "per_s_min", "per_s_max"]), "1/s"])
        self.table(section, "Host system", rows)
        self.table(section, "Database sizes", [
            [*self.origin(s), size(s["bytes_before"]), size(s["bytes_after"]),
             "–" if s["bytes_after"] is None else size(s["bytes_after"] - s["bytes_before"])] for s in test["sizes"]])
        self.table(section, "Test log", [
            [f"{num(e['t_s'], 1)} s", e["severity"] if e["severity"] != "info" else "",
             *([e["host"]] if self.many else []), e["text"]] for e in self.report["events"] if e["test"] == test["ordinal"]])


def check(report, read, same):
    """Calls `same(what, wanted, found)` for every row of every table that holds figures."""
    page = Check(report, read, same)
    page.head()
    for test in report["tests"]:
        page.test(test)
