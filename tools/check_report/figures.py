"""The arithmetic of a measured window, from its definitions in docs/run-db.md and docs/report.md.

A point counts where the middle of its interval lies. A row of a host is the sum of its instances and databases, so one or
the other is used. A sample in which nothing was counted is a sample of zero.
"""

import bisect
import collections

MIB = 1 << 20
WAITING, HELD = "_waiting", "_held"
RANKS = {"p50_ms": 2, "p90_ms": 10, "p95_ms": 20, "p99_ms": 100, "p99_9_ms": 1_000, "p99_99_ms": 10_000}


class Window:
    """The measured window of a test, its samples, and what was counted in it."""

    def __init__(self, run, test):
        self.run, self.test = run, test
        sources = [source for source in run.sources if source["test"] == test["ordinal"]]
        self.sources = [source for source in sources if not source["measure"].endswith((WAITING, HELD))]
        self.helds = {}
        for source in sources:
            if source["measure"].endswith(HELD):
                self.helds.setdefault(source["measure"].removesuffix(HELD), []).append(source)
        self.waits = [source for source in sources
                      if source["measure"].endswith(WAITING) and source["instance"] is not None]
        self.start, self.end = self.bounds()
        self.seconds = (self.end - self.start) / 1e3
        self.of_hosts = self.samples_of_hosts()
        self.spans = self.samples()
        self.known = {}

    def bounds(self):
        """The window; the whole test if it has none; up to the last row if the run ended before."""
        has_window = self.test["window_start_ms"] is not None
        start, end = [self.test["window_start_ms" if has_window else "started_ms"],
                      self.test["window_end_ms" if has_window else "ended_ms"]]
        if end is None:
            last = [source["points"][-1] for source in self.sources if source["points"]]
            end = max([self.test["started_ms"], start, *(point.t_ms + point.interval_ms for point in last)])
        return start, end

    def holds(self, point):
        return self.start <= point.t_ms + point.interval_ms // 2 < self.end

    def samples_of_hosts(self):
        """Samples of a host begin where rows of its databases and instances begin."""
        length = max(self.test["sample_ms"], 1)
        hosts = collections.defaultdict(set)
        for source in self.sources:
            if source["instance"] is not None:
                hosts[source["host"]] |= {(p.t_ms, p.t_ms + max(p.interval_ms, 1))
                                          for p in source["points"] if self.holds(p)}
        taken = {host: one_host(sorted(rows), length) for host, rows in sorted(hosts.items())}
        return {host: [(start, end) for (start, _), end in zip(spans, [next for next, _ in spans[1:]] + [spans[-1][1]])]
                for host, spans in taken.items() if spans}

    def samples(self):
        """Samples of all hosts together: those of the host with the most, else even steps."""
        if self.of_hosts:
            return max(self.of_hosts.values(), key=len)
        length = max(self.test["sample_ms"], 1)
        whole = (self.end - self.start) // length
        return [(self.start + n * length, self.start + (n + 1) * length) for n in range(whole)]

    def sample_of(self, point, spans=None):
        """The sample that holds the middle of a point; None between samples."""
        spans = self.spans if spans is None else spans
        middle = point.t_ms + point.interval_ms // 2
        index = bisect.bisect_right(spans, middle, key=lambda span: span[0]) - 1
        return index if index >= 0 and middle < spans[index][1] else None

    def sample_seconds(self, index):
        return (self.spans[index][1] - self.spans[index][0]) / 1e3

    def chosen(self, measure, scope, kind="points"):
        """Sources of a measure, host rows before the rows that they sum up."""
        found = [s for s in self.sources if s["measure"] == measure and s[kind]]
        if not {"instance", "database"} & scope.keys():
            summed = {s["host"] for s in found if s["instance"] is None}
            found = [s for s in found if s["instance"] is None or s["host"] not in summed]
        return [s for s in found if all(s[key] == value for key, value in scope.items())]

    def points(self, measures, **scope):
        return [p for measure in measures for s in self.chosen(measure, scope) for p in s["points"] if self.holds(p)]

    def total(self, field, *measures, **scope):
        return sum(getattr(point, field) for point in self.points(measures, **scope))

    def held_ms(self, measure):
        """Mean time that the load generator held an operation, over all hosts; None if it is not known."""
        points = [p for source in self.helds.get(measure, []) for p in source["points"] if self.holds(p)]
        count = sum(p.count for p in points)
        return sum(p.latency_ns for p in points) / count / 1e6 if count else None

    def counted(self, counter, **scope):
        """A counter over the window; None if it was never taken."""
        points = self.points([counter], **scope)
        return sum(point.value for point in points) if points else None

    def figures(self, measures, **scope):
        key = (tuple(measures), tuple(sorted(scope.items(), key=str)))
        if key not in self.known:
            self.known[key] = self.figures_of(
                self.points(measures, **scope), scope.get("host"), self.waiting(measures, **scope))
        return self.known[key]

    def waiting(self, measures, **scope):
        """What waited at the ends of the samples of databases and logs."""
        wanted = {measure + WAITING for measure in measures}
        return [p for s in self.waits if s["measure"] in wanted and all(s[key] == value for key, value in scope.items())
                for p in s["points"] if self.holds(p)]

    def figures_of(self, points, host=None, waiting=()):
        """Rates divide by the window. A mean weighs operations; a sample mean weighs samples, empty ones as zero.

        What waits at the end of a sample or of the window counts where it raises the mean.
        """
        count = sum(point.count for point in points)
        at_the_end = [p for p in waiting if p.t_ms + p.interval_ms >= self.end]
        if count + sum(point.count for point in at_the_end) == 0:
            return None
        size = sum(point.bytes for point in points)
        busy_ns = sum(point.latency_ns for point in points)
        spans = self.of_hosts.get(host, self.spans)
        samples, waited = [[0, 0, 0] for _ in spans], [[0, 0, 0] for _ in spans]
        for into, of in [(samples, points), (waited, waiting)]:
            for point in of:
                index = self.sample_of(point, spans)
                if index is not None:
                    for at, value in enumerate([point.count, point.bytes, point.latency_ns]):
                        into[index][at] += value
        mean = mean_ms(busy_ns, count, sum(p.latency_ns for p in at_the_end), sum(p.count for p in at_the_end))
        # One that waits lasts at least as long as it has waited.
        counting = [*points, *(at_the_end if not count or mean > busy_ns / count / 1e6 else [])]
        latencies = [ns / n / 1e6 if n else 0.0 for n, _, ns in samples]
        sizes = [amount / n if n else 0.0 for n, amount, _ in samples]
        # Of equal ones the first.
        judged = [mean_ms(ns, n, waited_ns, held) for (n, _, ns), (held, _, waited_ns) in zip(samples, waited)]
        worst = max([(ms, -n) for n, ms in enumerate(judged) if ms is not None], default=None)
        return {
            "count": count,
            "per_s": count / self.seconds,
            "mib_per_s": size / MIB / self.seconds,
            "bytes_mean": size / count if count else None,
            "bytes_sample_mean": sum(sizes) / len(sizes) if sizes else None,
            "latency_ms_mean": mean,
            "latency_ms_sample_mean": sum(latencies) / len(latencies) if latencies else None,
            "latency_ms_sample_max": worst and worst[0],
            "worst_sample_window_s": worst and max(0, spans[-worst[1]][0] - self.start) / 1e3,
            "latency_ms_max": max(point.longest_ns for point in counting) / 1e6,
            # Little's law: requests under way are the time that they took together, by time.
            "outstanding": busy_ns / 1e9 / self.seconds,
        }

    def slices(self, measure, **scope):
        return [one for s in self.chosen(measure, scope, "slices") for one in s["slices"] if self.holds(one)]

    def percentiles(self, measure, **scope):
        key = ("percentiles", measure, tuple(sorted(scope.items(), key=str)))
        if key not in self.known:
            self.known[key] = percentiles_of(self.slices(measure, **scope))
        return self.known[key]


def mean_ms(busy_ns, count, waited_ns, held):
    """The mean of completed operations, or of these and those that wait, whichever is higher; None if there is neither."""
    means = [busy_ns / count / 1e6] if count else []
    if count + held:
        means.append((busy_ns + waited_ns) / (count + held) / 1e6)
    return max(means, default=None)


def one_host(rows, length):
    """(start, end) of each sample of a host: starts within half a sample are one, a shorter rest at the end is none."""
    samples = []
    for start, end in rows:
        if samples and 2 * (start - samples[-1][0]) < length:
            samples[-1] = (samples[-1][0], max(samples[-1][1], end))
        else:
            samples.append((start, end))
    if len(samples) > 1 and 2 * (samples[-1][1] - samples[-1][0]) < length:
        samples.pop()
    return samples


def percentiles_of(slices):
    """The value that all but one in so many operations do not exceed; none where not even one could."""
    buckets = collections.Counter()
    for one in slices:
        for value, count in one.buckets:
            buckets[value] += count
    count = sum(buckets.values())
    longest = max((one.longest_ns for one in slices), default=0) / 1e6
    found = {"count": count, "max_ms": longest if count else None}
    for name, one_in in RANKS.items():
        found[name] = None
        if count >= one_in:
            left = count // one_in
            for value in sorted(buckets, reverse=True):
                left -= buckets[value]
                if left < 0:
                    # A bucket is at most 1 % wide; nothing took longer than the longest.
                    found[name] = min(value / 1e3, longest)
                    break
    return found
