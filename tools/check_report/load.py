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
        same(f"steadiness: {name}", None, report["steadiness"])
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
    """Quarters of whole samples, and how far they and the first writes lie from the mean of the window (docs/report.md)."""
    count, told = len(window.spans), report["steadiness"]
    if count < 4 or window.test["window_start_ms"] is None or told is None:
        same(f"steadiness: {name}", count >= 4 and window.test["window_start_ms"] is not None, told is not None)
        return
    seconds = [0.0] * 4
    for n in range(count):
        seconds[4 * n // count] += window.sample_seconds(n)
    reads, writes, log_writes = (Quarters(window, measure, seconds) for measure in [READ, WRITE, "log_write"])
    both = Quarters(window, READ, seconds, WRITE)
    changes = [furthest(one.latencies(), one.mean_latency()) for one in [reads, writes, log_writes]]
    change = {
        "iops_change_max": furthest(both.rates(), both.mean_rate()),
        "writes_change_max": furthest(writes.rates(), writes.mean_rate()),
        "latency_change_max": None if None in changes else max(changes),
        "write_start": ratio(writes.first / window.sample_seconds(0), writes.mean_rate()),
    }
    limits = {"iops_change_max": 0.05, "writes_change_max": 0.1, "latency_change_max": 0.1}
    steady = all(change[key] is not None and 100 * change[key] <= 100 * limit for key, limit in limits.items())
    steady = steady and change["write_start"] is not None and change["write_start"] >= 0.5
    first, last = both.rates()[0], both.rates()[3]
    same_fields(f"steadiness: {name}", {**change, "steady": steady, "iops_change": last / first - 1 if first else None}, told)
    for field, wanted in [("quarter_iops", both.rates()), ("quarter_writes_per_s", writes.rates()),
                          ("quarter_read_latency_ms", reads.latencies()),
                          ("quarter_write_latency_ms", writes.latencies()),
                          ("quarter_log_write_latency_ms", log_writes.latencies())]:
        for n in range(4):
            same(f"steadiness: {name} {field} {n}", wanted[n], told[field][n])


class Quarters:
    """Operations of some measures in the quarters of a window."""

    def __init__(self, window, measure, seconds, *more):
        self.seconds, self.counts, self.latency_ns, self.first = seconds, [0] * 4, [0] * 4, 0
        for point in window.points([measure, *more]):
            index = window.sample_of(point)
            if index is not None:
                quarter = 4 * index // len(window.spans)
                self.counts[quarter] += point.count
                self.latency_ns[quarter] += point.latency_ns
                self.first += point.count if index == 0 else 0

    def rates(self):
        return [count / seconds for count, seconds in zip(self.counts, self.seconds)]

    def mean_rate(self):
        return sum(self.counts) / sum(self.seconds)

    def latencies(self):
        return [ratio(ns / 1e6, count) for ns, count in zip(self.latency_ns, self.counts)]

    def mean_latency(self):
        return ratio(sum(self.latency_ns) / 1e6, sum(self.counts))


def furthest(values, mean):
    """How far the value that is furthest from the mean lies from it, as a share of the mean."""
    if not mean or None in values:
        return None
    return max(abs(value - mean) / mean for value in values)
