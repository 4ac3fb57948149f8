"""Mistakes of many kinds, as a wrong program would make them: each must be noticed.

A mistake changes a copy of the report: most work a figure out from run.db by a formula that is wrong in one way.
"""

import copy
import math

import hosts
from compare import found
from figures import Window, percentiles_of

READ = "transactional_read"


def load_at(report):
    """The place of the first test with a load and a window."""
    return next(n for n, test in enumerate(report["tests"]) if test["throughput"] and test["window"])


def measure(test, name):
    return next(row for row in test["measures"] if row["measure"] == name)


def shape_row(test, name):
    return next(row for row in test["load_shape"] if row["name"] == name)


def whole_test(window):
    """The same test with its warm-up and its end as part of the window."""
    test = {**window.test, "window_start_ms": window.test["started_ms"], "window_end_ms": window.test["ended_ms"] + 1}
    return Window(window.run, test)


def unit_of_time(test, window):
    """Microseconds are shown as milliseconds."""
    measure(test, READ)["figures"]["latency_ms_mean"] *= 1e3


def unit_of_size(test, window):
    """MB of 10^6 bytes are shown as MiB."""
    measure(test, READ)["figures"]["mib_per_s"] *= 2**20 / 1e6


def weighting(test, window):
    """A mean of samples stands where operations are to be weighed."""
    figures = measure(test, READ)["figures"]
    figures["latency_ms_mean"] = figures["latency_ms_sample_mean"]


def window_bounds(test, window):
    """Warm-up and drain are counted."""
    wide = whole_test(window)
    wide.start -= 1
    points = [p for s in wide.chosen(READ, {}) for p in s["points"]]
    extra = points[0]._replace(t_ms=wide.start - 1)
    measure(test, READ)["figures"] = {**measure(test, READ)["figures"], **wide.figures_of([*points, extra])}


def window_of_the_plan(test, window):
    """A rate divides by a window that is a second longer than the one measured."""
    test["throughput"]["transactional_iops"] *= window.seconds / (window.seconds + 1)


def missing_class(test, window):
    """The zero-filling of log files is left out of what is written to them."""
    shape_row(test, "Log written per batch")["measured"] = \
        window.total("bytes", "log_write") / 1024 / window.total("count", "batch")


def class_too_many(test, window):
    """Maintenance counts as transactional, as the published reports have it."""
    measure(test, READ)["figures"] = window.figures([READ, "maintenance_read"])


def sample_off_by_one(test, window):
    """The worst sample is said to begin where the one before it does."""
    figures = measure(test, READ)["figures"]
    figures["worst_sample_window_s"] -= window.sample_seconds(0)


def empty_sample(test, window):
    """A sample without an operation is passed over instead of counting as zero."""
    figures = measure(test, READ)["figures"]
    figures["latency_ms_sample_mean"] *= len(window.spans) / (len(window.spans) - 1)


def last_partial_sample(test, window):
    """A short rest at the end counts as a sample."""
    test["window"]["samples"] += 1


def percentile_rank(test, window):
    """p95 stands for p90."""
    told = measure(test, READ)["percentiles"]
    told["p90_ms"] = told["p95_ms"]


def percentile_of_means(test, window):
    """The mean of the percentiles of slices stands for the percentile of all operations."""
    each = [percentiles_of([one])["p50_ms"] for one in window.slices(READ)]
    measure(test, READ)["percentiles"]["p50_ms"] = sum(each) / len(each) * 1.01


def maximum_of_bucket(test, window):
    """The longest I/O is the end of a bucket instead of the exact one."""
    longest = max(value for one in window.slices(READ) for value, _ in one.buckets)
    measure(test, READ)["percentiles"]["max_ms"] = (longest + 1) / 1e3


def merged_hosts(test, window):
    """One host stands for all."""
    host = window.sources[0]["host"]
    measure(test, READ)["figures"] = window.figures([READ], host=host)


def counted_twice(test, window):
    """Rows of hosts and the rows that they sum up are added."""
    test["throughput"]["batches"] += sum(i["batches"] for i in test["instances"])


def swapped(test, window):
    """Reads and writes change places."""
    load = test["throughput"]
    load["reads_per_s"], load["writes_per_s"] = load["writes_per_s"], load["reads_per_s"]


def wrong_divisor(test, window):
    """A share divides by the other part instead of by both."""
    load = test["throughput"]
    load["read_share"] = load["reads_per_s"] / load["writes_per_s"]


def slices_alike(test, window):
    """A slice of milliseconds weighs as much as a second."""
    row = next(row for row in test["host_system"] if row["name"] == "Processors of the host, busy")
    slices = hosts.shares(window, row["host"], "host_cpu_busy_ns", "host_cpu_available_ns")
    slices.append((2, slices[0][2], slices[0][2]))
    row["mean"] = sum(100 * part / whole for _, part, whole in slices) / len(slices)


def sum_for_mean(test, window):
    """A sum of all samples stands for their mean."""
    test["page_fault_stalls"]["per_s_mean"] = test["page_fault_stalls"]["per_s_max"] + 1


def first_writes_left_out(test, window):
    """The writes of the first sample are not looked at."""
    test["steadiness"]["write_start"] = 0.0


def quarters_shifted(test, window):
    """Quarters begin one sample late."""
    quarters = test["steadiness"]["quarter_iops"]
    quarters[:] = [iops * (1 + n / 100) for n, iops in enumerate(quarters[1:] + quarters[:1])]


def chart_shifted(test, window):
    """A chart begins one step late."""
    values = test["charts"][0]["lines"][0]["values"]
    values[:] = values[1:] + [values[0] + 1]


def row_left_out(test, window):
    """An instance is missing from its table."""
    test["instances"].pop()


def other_test(test, window):
    """A figure is that of the test before."""
    test["started_s"] = 0.0


def bytes_of_the_file(test, window):
    """Log files are counted with five times their size."""
    shape_row(test, "Log files per batch")["measured"] *= 5


def another_limit(test, window):
    """A verdict shows the limit of another rule."""
    limited = [verdict for verdict in test["verdicts"] if verdict["limit"] is not None]
    limited[0]["limit"] = limited[-1]["limit"] - 1


def outcome_turned(test, window):
    """A pass is shown as a fail."""
    verdict = next(verdict for verdict in test["verdicts"] if verdict["outcome"] == "pass")
    verdict["outcome"] = "fail"


def share_for_percent(report):
    """A condition's figure is a share where it is to be in percent."""
    condition = next(c for c in report["verdict"]["conditions"] if c["name"] == "target_met_percent")
    condition["measured"] /= 100


def condition_left_out(report):
    """A condition that is not met is missing from the table."""
    conditions = report["verdict"]["conditions"]
    conditions.remove(next(c for c in conditions if not c["met"]))


def qualified_anyway(report):
    """The run is graded as if it met every condition."""
    report["verdict"]["grade"] = "qualified"


def nicer_sentence(report):
    """The sentence states a higher load than the tests reached."""
    verdict = report["verdict"]
    verdict["headline"] = verdict["headline"].replace(" at ", " at 9")


def remedy_of_another(report):
    """The list of what is missing gives the remedy of another condition."""
    reasons = report["verdict"]["reasons"]
    missing = [n for n, reason in enumerate(reasons) if reason.startswith("Missing: ")]
    one, other = (reasons[n].split(" Remedy: ") for n in (missing[0], missing[-1]))
    reasons[missing[0]] = f"{one[0]} Remedy: {other[1]}"


def reason_left_out(report):
    """A condition that is not met is not among the reasons."""
    reasons = report["verdict"]["reasons"]
    reasons.remove(next(reason for reason in reasons if reason.startswith("Missing: ")))


def note_of_another_figure(report):
    """A note tells another figure than its condition has."""
    condition = next(c for c in report["verdict"]["conditions"] if c["name"] == "cache_ratio")
    condition["note"] = "database 12 x its cache"


def remedy_lost(report):
    """A condition has no remedy."""
    report["verdict"]["conditions"][0]["remedy"] = ""


def other_seal(report):
    """The report names another seal than the last of run.db."""
    report["run"]["seal"] = "0" * 64


def time_unit_of_event(report):
    """Milliseconds of an event are shown as seconds."""
    report["events"][-1]["t_s"] *= 1e3


def cell(html):
    """A number of the page is another."""
    at = html.rindex('<td class="r">') + len('<td class="r">')
    return html[:at] + "1" + html[at:]


def unit_of_column(html):
    """Latencies are headed as seconds."""
    return html.replace("ms</th>", "s</th>")


def case_lost(xml):
    """A suite says that it has more cases than it has."""
    return xml.replace('tests="', 'tests="1', 1)


OF_TEST = [
    unit_of_time, unit_of_size, weighting, window_bounds, window_of_the_plan, missing_class, class_too_many,
    sample_off_by_one, empty_sample, last_partial_sample, percentile_rank, percentile_of_means, maximum_of_bucket,
    merged_hosts, counted_twice, swapped, wrong_divisor, slices_alike, sum_for_mean, quarters_shifted,
    first_writes_left_out, chart_shifted, row_left_out, other_test, bytes_of_the_file, another_limit, outcome_turned,
]
OF_RUN = [
    time_unit_of_event, share_for_percent, condition_left_out, qualified_anyway, nicer_sentence, remedy_of_another,
    reason_left_out, note_of_another_figure, remedy_lost, other_seal,
]


def differ(one, other):
    """Whether two reports differ by more than the last digits of a fraction, which no check looks at."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() != other.keys() or any(differ(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) != len(other) or any(map(differ, one, other))
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return not math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return one != other


def planted_in(mistake, report, *more):
    """A copy of the report with the mistake; None if the run has nothing in which it could be made."""
    changed = copy.deepcopy(report)
    try:
        mistake(changed if not more else changed["tests"][more[0]], *more[1:])
    except (StopIteration, IndexError, KeyError, TypeError):
        return None
    return changed if differ(changed, report) else None


def unnoticed(checker, check, files):
    """The mistakes that the check does not notice. Those that this run has no place for are named and not counted."""
    report, html, xml = files
    at = load_at(report)
    already = found(lambda: check(report, html, xml))
    looks = {}
    for mistake in OF_TEST:
        changed = planted_in(mistake, report, at, checker.windows[at])
        looks[mistake] = changed is not None, lambda changed=changed: checker.check(changed, at)
    for mistake in OF_RUN:
        changed = planted_in(mistake, report)
        looks[mistake] = changed is not None, lambda changed=changed: checker.check(changed)
    for mistake, pages in [(cell, (cell(html), xml)), (unit_of_column, (unit_of_column(html), xml)), (case_lost, (html, case_lost(xml)))]:
        looks[mistake] = pages != (html, xml), lambda pages=pages: check(report, *pages)
    without = [mistake.__name__ for mistake, (is_change, _) in looks.items() if not is_change]
    missed = [f"{mistake.__name__}: {mistake.__doc__}" for mistake, (is_change, look) in looks.items()
              if is_change and not found(look) - already]
    print(f"{len(looks) - len(without)} kinds of mistakes planted, {len(missed)} unnoticed, "
          f"{len(without)} without a place in this run{': ' * bool(without)}{', '.join(without)}")
    return missed
