"""Charts and heat maps: what was counted in even steps of the window."""

import collections
import json
import math

from compare import same, same_fields, same_list
from figures import MIB
from page import MEASURES

STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400]
MOST = 240


class Steps:
    """The shortest round step, of at least so many seconds, that cuts a window into at most 240."""

    def __init__(self, window, at_least_s=0):
        self.window = window
        wished = max(window.seconds / MOST, at_least_s)
        self.step_s = next((step for step in STEPS if step >= wished), max(window.seconds, 1.0))
        self.count = max(1, math.ceil(window.seconds / self.step_s))

    def of(self, point):
        seconds = (point.t_ms + point.interval_ms // 2 - self.window.start) / 1e3
        return min(self.count - 1, int(max(0.0, seconds) / self.step_s))

    def totals(self, measure, **scope):
        """Count, bytes, latency, longest of each step."""
        each = [[0, 0, 0, 0] for _ in range(self.count)]
        for p in self.window.points([measure], **scope):
            step = each[self.of(p)]
            step[:] = step[0] + p.count, step[1] + p.bytes, step[2] + p.latency_ns, max(step[3], p.longest_ns)
        return each

    def rates(self, amounts):
        """A last step of less than half the length has no rate."""
        lengths = [min(self.step_s, self.window.seconds - n * self.step_s) for n in range(self.count)]
        return [amount / length if length >= self.step_s / 2 else None for amount, length in zip(amounts, lengths)]

    def means(self, measure, **scope):
        return [ns / count / 1e6 if count else None for count, _, ns, _ in self.totals(measure, **scope)]

    def frame(self):
        return {"duration_s": self.window.seconds, "step_s": self.step_s}


def check(window, report, name):
    charts(window, report, name)
    latency_map(window, report["latency_map"], name)
    told = report["instance_map"]
    if told:
        steps = Steps(window, window.test["sample_ms"] / 1e3)
        same_fields(f"instance map: {name}", steps.frame(), told)
        same(f"instance map: {name} rows", [(i["host"], i["instance"]) for i in report["instances"]],
             [(row["host"], row["instance"]) for row in told["rows"]])
        for row in told["rows"]:
            means = steps.means("transactional_read", host=row["host"], instance=row["instance"])
            same_list(f"instance map: {name} {row['instance']}", means, row["latency_ms_mean"])
    elif window.test["window_start_ms"] is not None and len(report["instances"]) > 1:
        seen = any(point.count for point in window.points(["transactional_read"], ))
        same(f"instance map: {name} left out", False, seen)


def charts(window, report, name):
    steps = Steps(window)
    wanted = {}
    if report["throughput"]:
        of = {"Database reads": "transactional_read", "Database writes": "transactional_write", "Log writes": "log_write"}
        each = {line: steps.totals(measure) for line, measure in of.items()}
        wanted["I/O per second"] = {line: steps.rates([step[0] for step in all]) for line, all in each.items()}
        wanted["Mean latency"] = {line: steps.means(measure) for line, measure in of.items()}
        wanted["Longest latency of a single I/O"] = {
            line: [step[3] / 1e6 if step[0] else None for step in all] for line, all in each.items()}
    else:
        moved = {title: steps.totals(measure) for measure, title in MEASURES.items()}
        wanted["Throughput"] = {title: steps.rates([step[1] / MIB for step in all]) for title, all in moved.items()
                                if any(step[1] for step in all)}
    # Fewer than three points are no line.
    wanted = {title: lines for title, lines in wanted.items()
              if any(sum(value is not None for value in values) > 2 for values in lines.values())}
    same(f"charts: {name}", list(wanted), [chart["title"] for chart in report["charts"]])
    for chart in report["charts"]:
        what = f"charts: {name} {chart['title']}"
        same_fields(what, steps.frame(), chart)
        lines = wanted.get(chart["title"], {})
        same(f"{what} lines", list(lines), [line["name"] for line in chart["lines"]])
        for line in chart["lines"]:
            same_list(f"{what} {line['name']}", lines.get(line["name"], []), line["values"])
        limits = latency_limits(window, report) if chart["title"] == "Mean latency" else {}
        same(f"{what} limits", limits, {limit["name"]: limit["value"] for limit in chart["limits"]})


def latency_limits(window, report):
    """Those of the test; of an older run those of its verdicts."""
    stated = {limit["rule"]: limit["value"] for limit in json.loads(window.test.get("limits") or "[]")}
    for verdict in report["verdicts"]:
        stated.setdefault(verdict["rule"], verdict["limit"])
    rules = {"read_latency_avg": "Limit for reads", "log_write_latency_avg": "Limit for log writes"}
    return {title: stated[rule] for rule, title in rules.items() if rule in stated}


def latency_map(window, told, name):
    """Operations by latency, four rows to a doubling, over time."""
    slices = window.slices("transactional_read")
    same(f"latency map: {name} known", bool(slices), told is not None)
    if not slices or told is None:
        return
    steps = Steps(window, max(one.interval_ms for one in slices) / 1e3)
    columns = [collections.Counter() for _ in range(steps.count)]
    for one in slices:
        for value, count in one.buckets:
            columns[steps.of(one)][math.floor(4 * math.log2(max(value, 1)))] += count
    rows = range(min(min(column) for column in columns if column), max(max(column) for column in columns if column) + 1)
    same_fields(f"latency map: {name}", steps.frame(), told)
    same_list(f"latency map: {name} bounds", [2 ** (n / 4) / 1e3 for n in [*rows, rows[-1] + 1]], told["bounds_ms"])
    for n, column in enumerate(columns):
        same_list(f"latency map: {name} {n}", [column[row] for row in rows], told["columns"][n])
