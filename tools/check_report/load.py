"""Throughput, shape of the load, steadiness, stalls: what a test with batches is described by."""

from compare import same, same_fields

# What the published tests with the mix of 2013 did per batch, from the logs of their reports (docs/fidelity.md). "Log
# written" is the counter of every write to a log file, so the zero-filling of new files is in it: facts call it twice
# what the log files hold.
PUBLISHED = {
    "Database page reads per batch": (27.6, 28.8),
    "Database page writes per batch": (12.9, 13.1),
    "Reads among database I/O": (67.5, 68.9),
    "Log writes per batch": (3.05, 3.08),
    "Log written per batch": (61.2, 62.6),
    "Log files per batch": (30.2, 30.7),
    "Database growth per batch": (13852, 14019),
    "Replication reads per log and extra copy": (8.94, 9.11),
    "Maintenance reads per database": (8.46, 9.14),
}
READ, WRITE = "transactional_read", "transactional_write"


def ratio(amount, by):
    return amount / by if amount is not None and by else None


def check(window, report, name):
    levels(window, report, name)
    load = report["throughput"]
    if load is None:
        same(f"shape: {name} rows", 0, len(report["load_shape"]))
        return
    throughput(window, load, name)
    shape(window, report, name)
    steadiness(window, report, name)


def throughput(window, load, name):
    per_s = {m: window.total("count", m) / window.seconds for m in [READ, WRITE, "log_write", "batch"]}
    both = per_s[READ] + per_s[WRITE]
    each = [sum(p.count for p in s["points"] if window.holds(p)) for s in window.sources
            if s["measure"] == "batch" and s["database"] is not None and s["points"]]
    sizes = window.run.of_test("database_size", window.test["ordinal"])

    def size(column):
        known = [row[column] for row in sizes]
        return sum(known) if known and None not in known else None

    same_fields(f"throughput: {name}", {
        "transactional_iops": both, "reads_per_s": per_s[READ], "writes_per_s": per_s[WRITE],
        "read_share": ratio(per_s[READ], both), "log_writes_per_s": per_s["log_write"],
        "batches": window.total("count", "batch"), "batches_per_s": per_s["batch"],
        "database_batches_min": min(each, default=None), "database_batches_max": max(each, default=None),
        "database_bytes_before": size("bytes_before"), "database_bytes_after": size("bytes_after")}, load)


def shape(window, report, name):
    batches = window.total("count", "batch")
    reads, writes = window.total("count", READ), window.total("count", WRITE)
    logs = window.counted("log_generations")
    closed = [(window.counted("log_generations", host=i["host"], instance=i["name"]) or 0) * i["log_file_bytes"]
              for i in window.run.instances]
    shipped = (logs or 0) * max(0, window.test["copies"] - 1)
    maintained = sum(1 for s in window.sources if s["measure"] == "maintenance_read" and s["database"] is not None)
    wanted = {
        "Database page reads per batch": ratio(reads, batches),
        "Database page writes per batch": ratio(writes, batches),
        "Reads among database I/O": ratio(100 * reads, reads + writes),
        "Log writes per batch": ratio(window.total("count", "log_write"), batches),
        "Log written per batch": ratio(window.total("bytes", "log_write", "log_prepare_write") / 1024, batches),
        "Log files per batch": ratio(None if logs is None else sum(closed) / 1024, batches),
        "Database growth per batch": ratio(window.counted("growth_bytes"), batches),
        "Replication reads per log and extra copy": ratio(window.total("count", "replication_read"), shipped),
        "Maintenance reads per database": ratio(window.total("count", "maintenance_read"), maintained * window.seconds),
    }
    same(f"shape: {name} rows", list(wanted), [row["name"] for row in report["load_shape"]])
    for row in report["load_shape"]:
        low, high = PUBLISHED[row["name"]]
        same_fields(f"shape: {name} {row['name']}",
                    {"measured": wanted[row["name"]], "published_min": low, "published_max": high}, row)


def by_sample(window, counter):
    """A counter of all instances together, by sample; None if it was never taken."""
    points = window.points([counter])
    if not points:
        return None
    values = [0] * len(window.spans)
    for point in points:
        index = window.sample_of(point)
        if index is not None:
            values[index] += point.value
    return values


def levels(window, report, name):
    """Page fault stalls by sample, and the most that all page caches held."""
    stalls = by_sample(window, "page_fault_stalls")
    rates = [stall / window.sample_seconds(n) for n, stall in enumerate(stalls or [])]
    same_fields(f"stalls: {name}", {
        "per_s_mean": sum(rates) / len(rates), "per_s_min": min(rates), "per_s_max": max(rates),
        "samples_with_stalls": sum(1 for stall in stalls if stall)} if rates else None, report["page_fault_stalls"])
    same(f"cache: {name}", max(by_sample(window, "cache_bytes") or [0]) or None, report["cache_bytes_max"])


def steadiness(window, report, name):
    """Quarters of whole samples; steady if each is within 5 % of the mean."""
    count = len(window.spans)
    if count < 4 or window.test["window_start_ms"] is None:
        same(f"steadiness: {name}", None, report["steadiness"])
        return
    quarters = [[0.0, 0, 0, 0] for _ in range(4)]
    for n in range(count):
        quarters[4 * n // count][0] += window.sample_seconds(n)
    for at, measure in enumerate([READ, WRITE]):
        for point in window.points([measure]):
            index = window.sample_of(point)
            if index is None:
                continue
            quarter = quarters[4 * index // count]
            quarter[1] += point.count
            if at == 0:
                quarter[2] += point.count
                quarter[3] += point.latency_ns
    iops = [operations / seconds for seconds, operations, _, _ in quarters]
    mean = sum(quarter[1] for quarter in quarters) / sum(quarter[0] for quarter in quarters)
    latencies = [ratio(ns / 1e6, reads) for _, _, reads, ns in quarters]
    told = report["steadiness"]
    same_fields(f"steadiness: {name}", {
        "quarter_iops": iops, "quarter_read_latency_ms": latencies,
    } if told is None else {
        "iops_change": iops[3] / iops[0] - 1 if iops[0] else None,
        "steady": all(abs(one - mean) <= 0.05 * mean for one in iops)}, told)
    for field, wanted in [("quarter_iops", iops), ("quarter_read_latency_ms", latencies)]:
        for n in range(4):
            same(f"steadiness: {name} {field} {n}", wanted[n], told[field][n])
