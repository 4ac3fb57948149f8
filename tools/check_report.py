#!/usr/bin/env python3
"""Checks report.json, report.html and junit.xml against run.db, without any code of Proofload.

usage: check_report.py RUN_FOLDER [--every-figure]

Recomputes every number of report.json from the rows of run.db (docs/run-db.md); then compares the tables of report.html
cell by cell (report_page.py) and junit.xml with the JSON. Prints how much was compared; every difference is a line, and
the exit status is 1 if there was any. --every-figure asks whether the check itself can fail: it changes one number of
each field of report.json in turn and names the fields whose change goes unnoticed.
"""

import collections
import copy
import json
import math
import os
import re
import sqlite3
import sys
import zlib
from xml.etree import ElementTree

import report_page

HDR_V2_COOKIE = 0x1C849303
HDR_V2_COMPRESSED_COOKIE = 0x1C849304
MIB = 1 << 20
COUNTERS = {"page_fault_stalls", "cache_bytes", "log_generations", "growth_bytes", "cpu_busy_ns", "cpu_available_ns",
            "cpu_busiest_thread_ns", "host_cpu_busy_ns", "host_cpu_available_ns", "host_memory_available_bytes"}
READS = ["transactional_read", "maintenance_read", "log_read", "replication_read", "backup_read", "housekeeping_read"]
WRITES = ["transactional_write", "log_write", "log_prepare_write", "init_write", "housekeeping_write"]

compared = collections.Counter()
differences = []


def same(what, ours, theirs, tolerance=1e-9):
    compared[what.split(":")[0]] += 1
    if ours is None or theirs is None:
        equal = ours is None and theirs is None
    elif not isinstance(ours, (int, float)) or not isinstance(theirs, (int, float)):
        equal = ours == theirs
    else:
        equal = math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=1e-9)
    if not equal:
        differences.append(f"{what}: run.db gives {ours!r}, the report says {theirs!r}")


def varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def samples(minute, block, values):
    at = 0
    while at < len(block):
        row = []
        for _ in range(2 + values):
            number, at = varint(block, at)
            row.append(number)
        row[0] += minute * 60_000
        yield tuple(row)


def hdr_buckets(blob):
    """(highest value of the bucket, count), ascending, of an HDR histogram in the V2 encoding."""
    cookie = int.from_bytes(blob[0:4], "big")
    if cookie & ~0xF0 == HDR_V2_COMPRESSED_COOKIE & ~0xF0:
        return hdr_buckets(zlib.decompress(blob[8:]))
    if cookie & ~0xF0 != HDR_V2_COOKIE & ~0xF0:
        raise ValueError(f"not an HDR histogram: {blob[:8].hex()}")
    length = int.from_bytes(blob[4:8], "big")
    digits = int.from_bytes(blob[12:16], "big")
    lowest = int.from_bytes(blob[16:24], "big")
    largest_single_unit = 2 * 10**digits
    sub_bits = max(math.ceil(math.log2(largest_single_unit)), 1)
    half_bits = sub_bits - 1
    unit_bits = int(math.log2(lowest))
    payload = blob[40 : 40 + length]
    at = index = 0
    while at < len(payload):
        # Nine bytes at most, and the ninth is whole: not plain LEB128.
        number = shift = 0
        for n in range(9):
            byte = payload[at]
            at += 1
            if n == 8:
                number |= byte << shift
                break
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        number = (number >> 1) ^ -(number & 1)
        if number < 0:
            index += -number
            continue
        if number:
            bucket = (index >> half_bits) - 1
            sub = (index & ((1 << half_bits) - 1)) + (1 << half_bits)
            if bucket < 0:
                bucket, sub = 0, sub - (1 << half_bits)
            value = sub << (bucket + unit_bits)
            width = 1 << (bucket + unit_bits)
            yield value + width - 1, number
        index += 1


def quantile(buckets, count, one_in):
    """The value that all but one in so many operations do not exceed."""
    wanted, seen = count - count // one_in, 0
    for value in sorted(buckets):
        seen += buckets[value]
        if seen >= wanted:
            return value
    return None


class Run:
    def __init__(self, path):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row
        self.sources = self.rows("SELECT * FROM source ORDER BY id")
        self.tests = self.rows("SELECT * FROM test ORDER BY ordinal")
        self.instances = self.rows("SELECT * FROM instance")
        self.databases = self.rows("SELECT * FROM database")
        self.tables = {row[0] for row in self.db.execute("SELECT name FROM sqlite_master")}
        self.volumes = self.rows("SELECT * FROM volume") if "volume" in self.tables else []
        self.known = {}
        self.points = {}
        self.slices = collections.defaultdict(list)
        names = {source["id"]: source["measure"] for source in self.sources}
        for row in self.db.execute("SELECT source, minute, samples FROM series ORDER BY source, minute"):
            values = 1 if names[row["source"]] in COUNTERS else 4
            self.points.setdefault(row["source"], []).extend(samples(row["minute"], row["samples"], values))
        for row in self.db.execute("SELECT * FROM histogram"):
            self.slices[row["source"]].append(row)

    def rows(self, sql, *values):
        return [dict(row) for row in self.db.execute(sql, values)]

    def window(self, test):
        start, end = test["window_start_ms"], test["window_end_ms"]
        if start is None:
            start, end = test["started_ms"], test["ended_ms"]
        if end is None:
            ends = [p[-1][0] + p[-1][1] for s, p in self.of(test) if p]
            end = max(ends + [test["started_ms"], start])
        return start, end

    def of(self, test):
        return [(s, sorted(self.points.get(s["id"], []))) for s in self.sources if s["test"] == test["ordinal"]]

    def chosen(self, test, measure, scope):
        """The sources of a scope: host rows before the rows that they sum up."""
        found = [s for s in self.sources if s["test"] == test["ordinal"] and s["measure"] == measure]
        if "instance" not in scope and "database" not in scope:
            own = {s["host"] for s in found if s["instance"] is None and (self.points.get(s["id"]) or self.slices.get(s["id"]))}
            found = [s for s in found if s["instance"] is None or s["host"] not in own]
        return [s for s in found if all(s[key] == value for key, value in scope.items())]


def in_window(point, window):
    return window[0] <= point[0] + point[1] // 2 < window[1]


def spans_of_host(taken, sample):
    """The samples of one host, from start and length of its rows: (start, end) each."""
    spans = []
    for start, length in sorted(taken):
        end = start + max(length, 1)
        if spans and (start - spans[-1][0]) * 2 < sample:
            spans[-1][1] = max(spans[-1][1], end)
        else:
            spans.append([start, end])
    # A rest of less than half a sample is none, unless it is all there is.
    if len(spans) > 1 and (spans[-1][1] - spans[-1][0]) * 2 < sample:
        spans.pop()
    for one, following in zip(spans, spans[1:]):
        one[1] = following[0]
    return spans


def sample_spans(run, test, window):
    """(start, end) of each sample: those of the host that has most of them, of equals the first by name."""
    sample = max(test["sample_ms"], 1)
    taken = collections.defaultdict(list)
    for source, points in run.of(test):
        if source["instance"] is not None:
            taken[source["host"]] += [(p[0], p[1]) for p in points if in_window(p, window)]
    each = [spans_of_host(taken[host], sample) for host in sorted(taken)]
    spans = max(each, key=len, default=[])
    if not spans:
        starts = [window[0] + n * sample for n in range((window[1] - window[0]) // sample)]
        spans = [(start, start + sample) for start in starts]
    return spans


def sample_index(spans, point):
    middle = point[0] + point[1] // 2
    low, high = 0, len(spans)
    while low < high:
        mid = (low + high) // 2
        if spans[mid][0] <= middle:
            low = mid + 1
        else:
            high = mid
    index = low - 1
    return index if index >= 0 and middle < spans[index][1] else None


def figures(run, test, window, spans, measures, scope):
    key = ("figures", test["ordinal"], tuple(measures), tuple(sorted(scope.items(), key=str)))
    if key not in run.known:
        sources = [s for measure in measures for s in run.chosen(test, measure, scope)]
        run.known[key] = figures_of(run, test, window, spans, sources)
    return run.known[key]


def figures_of(run, test, window, spans, sources):
    total = [0, 0, 0, 0]
    each = [[0, 0, 0] for _ in spans]
    for source in sources:
        for point in run.points.get(source["id"], []):
            if not in_window(point, window):
                continue
            _, _, count, size, latency, longest = point
            total = [total[0] + count, total[1] + size, total[2] + latency, max(total[3], longest)]
            index = sample_index(spans, point)
            if index is not None:
                each[index] = [each[index][0] + count, each[index][1] + size, each[index][2] + latency]
    if total[0] == 0:
        return None
    seconds = (window[1] - window[0]) / 1e3
    latencies = [s[2] / s[0] / 1e6 if s[0] else 0.0 for s in each]
    sizes = [s[1] / s[0] if s[0] else 0.0 for s in each]
    worst = max((n for n, s in enumerate(each) if s[0]), key=lambda n: (latencies[n], n), default=None)
    return {
        "count": total[0],
        "per_s": total[0] / seconds,
        "mib_per_s": total[1] / MIB / seconds,
        "bytes_mean": total[1] / total[0],
        "bytes_sample_mean": sum(sizes) / len(sizes) if sizes else None,
        "latency_ms_mean": total[2] / total[0] / 1e6,
        "latency_ms_sample_mean": sum(latencies) / len(latencies) if latencies else None,
        "latency_ms_sample_max": None if worst is None else latencies[worst],
        "worst_sample_window_s": None if worst is None else max(0, spans[worst][0] - window[0]) / 1e3,
        "latency_ms_max": total[3] / 1e6,
        "outstanding": total[2] / 1e9 / seconds,
    }


def percentiles(run, test, window, measure, scope):
    key = ("percentiles", test["ordinal"], measure, tuple(sorted(scope.items(), key=str)))
    if key not in run.known:
        run.known[key] = percentiles_of(run, test, window, measure, scope)
    return run.known[key]


def percentiles_of(run, test, window, measure, scope):
    buckets, longest = collections.Counter(), 0
    for source in run.chosen(test, measure, scope):
        for row in run.slices.get(source["id"], []):
            if in_window((row["t_ms"], row["interval_ms"]), window):
                for value, count in hdr_buckets(row["hdr_v2"]):
                    buckets[value] += count
                longest = max(longest, row["latency_ns_max"])
    count = sum(buckets.values())
    out = {"count": count, "max_ms": longest / 1e6 if count else None}
    for name, one_in in [("p50_ms", 2), ("p90_ms", 10), ("p95_ms", 20), ("p99_ms", 100), ("p99_9_ms", 1000),
                         ("p99_99_ms", 10000)]:
        out[name] = min(quantile(buckets, count, one_in) / 1e3, longest / 1e6) if count >= one_in else None
    return out


def same_row(what, told, **fields):
    for key, value in fields.items():
        same(f"{what} {key}", value, told[key])


def same_fields(what, ours, theirs):
    if ours is None or theirs is None:
        same(what, ours, theirs)
        return
    for key, value in ours.items():
        same(f"{what} {key}", value, theirs[key])


def check_test(run, test, report):
    name = f"test {test['ordinal']}"
    window = run.window(test)
    spans = sample_spans(run, test, window)
    seconds = (window[1] - window[0]) / 1e3
    until = max(test["started_ms"], window[1] if test["ended_ms"] is None else test["ended_ms"])
    same_row(f"test: {name}", report, ordinal=test["ordinal"], kind=test["kind"], name=test["name"],
             started_s=test["started_ms"] / 1e3, duration_s=(until - test["started_ms"]) / 1e3,
             ended=test["ended_ms"] is not None)
    same(f"window: {name} known", test["window_start_ms"] is not None, report["window"] is not None)
    if test["window_start_ms"] is not None:
        planned = test["window_planned_ms"]
        same_row(f"window: {name}", report["window"], start_s=window[0] / 1e3, duration_s=seconds,
                 planned_s=None if planned is None else planned / 1e3, sample_s=test["sample_ms"] / 1e3,
                 samples=len(spans), cut=test["window_end_ms"] is None)
    seen = set()
    for row in report["measures"]:
        measure = row["measure"]
        seen.add(measure)
        same_fields(f"figures: {name} {measure}", figures(run, test, window, spans, [measure], {}), row["figures"])
        same_fields(f"percentiles: {name} {measure}", percentiles(run, test, window, measure, {}), row["percentiles"])
    for source, points in run.of(test):
        counted = any(in_window(p, window) and p[2] for p in points)
        if counted and source["measure"] not in COUNTERS | seen:
            differences.append(f"{name}: {source['measure']} is in run.db but not in the report")
    for row in report["hosts"]:
        scope = {"host": row["host"]}
        what = f"host figures: {name} {row['host']} {row['measure']}"
        same_fields(what, figures(run, test, window, spans, [row["measure"]], scope), row["figures"])
        same_fields(what, percentiles(run, test, window, row["measure"], scope), row["percentiles"])
    columns = {"reads": ["transactional_read"], "writes": ["transactional_write"], "maintenance": ["maintenance_read"],
               "all_reads": ["transactional_read", "maintenance_read"], "log_writes": ["log_write"],
               "log_reads": ["log_read"], "replication": ["replication_read"]}
    for kind, keys in [("instances", ("host", "instance")), ("databases", ("host", "instance", "database"))]:
        for row in report[kind]:
            scope = {key: row[key] for key in keys}
            for column, measures in columns.items():
                what = f"{kind} figures: {name} {row['instance']} {column}"
                same_fields(what, figures(run, test, window, spans, measures, scope), row[column])
            for column, measure in [("read_percentiles", "transactional_read"), ("log_write_percentiles", "log_write")]:
                what = f"{kind} percentiles: {name} {row['instance']} {column}"
                same_fields(what, percentiles(run, test, window, measure, scope), row[column])
            same(f"{kind} batches: {name}", totals(run, test, window, ["batch"], scope)[0], row["batches"])
    check_sums(name, report)
    check_load(run, test, report, window, spans, name)
    check_pictures(run, test, report, window, name)
    check_hosts(run, test, report, window, name)
    check_volumes(run, test, report, window, spans, name)
    check_planned(run, test, report, window, name)
    check_statistics(run, test, report, window, name)


def check_sums(name, report):
    """What instances did adds up to what the hosts did; histograms hold what samples count."""
    columns = {"transactional_read": "reads", "transactional_write": "writes", "log_write": "log_writes"}
    for row in report["measures"]:
        column = columns.get(row["measure"])
        parts = [i[column]["count"] for i in report["instances"] if column and i[column]]
        if parts:
            same(f"sums: {name} {row['measure']}", row["figures"]["count"], sum(parts))
        if report["ended"] and row["percentiles"]["count"]:
            same(f"histograms: {name} {row['measure']}", row["figures"]["count"], row["percentiles"]["count"])


def totals(run, test, window, measures, scope):
    """Count, bytes and sum of latencies."""
    total = [0, 0, 0]
    for measure in measures:
        for source in run.chosen(test, measure, scope):
            for point in run.points.get(source["id"], []):
                if in_window(point, window):
                    total = [total[0] + point[2], total[1] + point[3], total[2] + point[4]]
    return total


# What the published tests with the mix of 2013 did per batch, from the logs of their reports.
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


def check_load(run, test, report, window, spans, name):
    load = report["throughput"]
    check_levels(run, test, report, window, spans, name)
    if load is None:
        same(f"shape: {name} rows", 0, len(report["load_shape"]))
        return
    seconds = (window[1] - window[0]) / 1e3

    def of(measure):
        return totals(run, test, window, [measure], {})

    def counter(measure, scope):
        return sum(p[2] for s in run.chosen(test, measure, scope) for p in run.points.get(s["id"], [])
                   if in_window(p, window))

    reads, writes, log_writes, batches = (of(m) for m in
                                          ["transactional_read", "transactional_write", "log_write", "batch"])
    both = reads[0] + writes[0]
    by_database = [sum(p[2] for p in run.points.get(s["id"], []) if in_window(p, window)) for s in run.sources
                   if s["test"] == test["ordinal"] and s["measure"] == "batch" and s["database"] is not None]
    sizes = run.rows("SELECT * FROM database_size WHERE test = ?", test["ordinal"])

    def size(column):
        return sum(s[column] for s in sizes) if sizes and all(s[column] is not None for s in sizes) else None

    same_row(f"throughput: {name}", load, transactional_iops=both / seconds, reads_per_s=reads[0] / seconds,
             writes_per_s=writes[0] / seconds, read_share=reads[0] / both if both else None,
             log_writes_per_s=log_writes[0] / seconds, batches=batches[0], batches_per_s=batches[0] / seconds,
             database_batches_min=min(by_database, default=None), database_batches_max=max(by_database, default=None),
             database_bytes_before=size("bytes_before"), database_bytes_after=size("bytes_after"))
    has_logs = any(run.points.get(s["id"]) for s in run.chosen(test, "log_generations", {}))
    logs = counter("log_generations", {})
    log_bytes = sum(counter("log_generations", {"host": i["host"], "instance": i["name"]}) * i["log_file_bytes"]
                    for i in run.instances)
    shipped = logs * (test["copies"] - 1)
    maintained = sum(1 for s in run.sources if s["test"] == test["ordinal"] and s["measure"] == "maintenance_read"
                     and s["database"] is not None)
    growth = counter("growth_bytes", {}) if run.chosen(test, "growth_bytes", {}) else None
    n = batches[0]
    wanted = {
        "Database page reads per batch": reads[0] / n if n else None,
        "Database page writes per batch": writes[0] / n if n else None,
        "Reads among database I/O": 100 * reads[0] / both if both else None,
        "Log writes per batch": log_writes[0] / n if n else None,
        "Log written per batch": (log_writes[1] + of("log_prepare_write")[1]) / 1024 / n if n else None,
        "Log files per batch": log_bytes / 1024 / n if n and has_logs else None,
        "Database growth per batch": growth / n if n and growth is not None else None,
        "Replication reads per log and extra copy": of("replication_read")[0] / shipped if shipped > 0 else None,
        "Maintenance reads per database": of("maintenance_read")[0] / maintained / seconds if maintained else None,
    }
    same(f"shape: {name} rows", list(wanted), [row["name"] for row in report["load_shape"]])
    for row in report["load_shape"]:
        low, high = PUBLISHED[row["name"]]
        same_row(f"shape: {name} {row['name']}", row, measured=wanted[row["name"]], published_min=low, published_max=high)
    check_steadiness(run, test, report, window, spans, name)


def sample_seconds(spans, index):
    return (spans[index][1] - spans[index][0]) / 1e3


def counter_samples(run, test, window, spans, measure):
    """A counter of all instances together, by sample; None if nothing was counted."""
    values, seen = [0] * len(spans), False
    for source in run.chosen(test, measure, {}):
        for point in run.points.get(source["id"], []):
            if in_window(point, window):
                seen = True
                index = sample_index(spans, point)
                if index is not None:
                    values[index] += point[2]
    return values if seen else None


def check_levels(run, test, report, window, spans, name):
    """Page fault stalls and the page cache."""
    stalls = counter_samples(run, test, window, spans, "page_fault_stalls")
    rates = [stall / sample_seconds(spans, n) for n, stall in enumerate(stalls or [])]
    same(f"stalls: {name} known", bool(rates), report["page_fault_stalls"] is not None)
    if rates:
        same_row(f"stalls: {name}", report["page_fault_stalls"], per_s_mean=sum(rates) / len(rates), per_s_min=min(rates),
                 per_s_max=max(rates), samples_with_stalls=sum(1 for stall in stalls if stall))
    cache = max(counter_samples(run, test, window, spans, "cache_bytes") or [0], default=0)
    same(f"cache: {name}", cache or None, report["cache_bytes_max"])


def check_steadiness(run, test, report, window, spans, name):
    count = len(spans)
    known = count >= 4 and test["window_start_ms"] is not None
    same(f"steadiness: {name} known", known, report["steadiness"] is not None)
    if not known:
        return
    seconds = [0.0] * 4
    for n in range(count):
        seconds[n * 4 // count] += sample_seconds(spans, n)
    quarters, first_writes = {}, 0
    for measure in ["transactional_read", "transactional_write", "log_write"]:
        totals = quarters[measure] = [[0, 0] for _ in range(4)]
        for source in run.chosen(test, measure, {}):
            for point in run.points.get(source["id"], []):
                index = sample_index(spans, point) if in_window(point, window) else None
                if index is not None:
                    total = totals[index * 4 // count]
                    total[0] += point[2]
                    total[1] += point[4]
                    if measure == "transactional_write" and index == 0:
                        first_writes += point[2]
    reads, writes, log_writes = (quarters[m] for m in ["transactional_read", "transactional_write", "log_write"])
    told = report["steadiness"]
    iops = [(reads[n][0] + writes[n][0]) / seconds[n] for n in range(4)]
    rates = [writes[n][0] / seconds[n] for n in range(4)]

    def furthest(values, mean):
        known = mean and all(value is not None for value in values)
        return max(abs(value - mean) / mean for value in values) if known else None

    def latencies(totals):
        return [total / number / 1e6 if number else None for number, total in totals]

    def mean_latency(totals):
        number = sum(one[0] for one in totals)
        return sum(one[1] for one in totals) / number / 1e6 if number else None

    for n in range(4):
        same(f"steadiness: {name} quarter {n}", iops[n], told["quarter_iops"][n])
        same(f"steadiness: {name} writes {n}", rates[n], told["quarter_writes_per_s"][n])
        for totals, key in [(reads, "read"), (writes, "write"), (log_writes, "log_write")]:
            same(f"steadiness: {name} {key} {n}", latencies(totals)[n], told[f"quarter_{key}_latency_ms"][n])
    mean_writes = sum(one[0] for one in writes) / sum(seconds)
    changes = [furthest(latencies(totals), mean_latency(totals)) for totals in [reads, writes, log_writes]]
    change = {
        "iops_change_max": furthest(iops, sum(one[0] for one in reads + writes) / sum(seconds)),
        "writes_change_max": furthest(rates, mean_writes),
        "latency_change_max": None if None in changes else max(changes),
        "write_start": first_writes / sample_seconds(spans, 0) / mean_writes if mean_writes else None,
    }
    limits = [("iops_change_max", 0.05), ("writes_change_max", 0.1), ("latency_change_max", 0.1)]
    steady = all(change[key] is not None and change[key] * 100 <= limit * 100 for key, limit in limits)
    start = change["write_start"]
    same_row(f"steadiness: {name}", told, iops_change=iops[3] / iops[0] - 1 if iops[0] else None,
             steady=steady and start is not None and start >= 0.5, **change)


STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400]


class Steps:
    """Even steps of time over a window, at most 240."""

    def __init__(self, window, at_least_s):
        self.window = window
        self.duration_s = (window[1] - window[0]) / 1e3
        wished = max(self.duration_s / 240, at_least_s)
        self.step_s = next((step for step in STEPS if step >= wished), max(self.duration_s, 1.0))
        self.count = max(1, math.ceil(self.duration_s / self.step_s))

    def of(self, t_ms, interval_ms):
        return min(self.count - 1, int(max(0, t_ms + interval_ms // 2 - self.window[0]) / 1e3 / self.step_s))

    def length_s(self, step):
        return min(self.duration_s - step * self.step_s, self.step_s)

    def totals(self, run, test, measure, scope):
        each = [[0, 0, 0, 0] for _ in range(self.count)]
        for source in run.chosen(test, measure, scope):
            for point in run.points.get(source["id"], []):
                if in_window(point, self.window):
                    t = each[self.of(point[0], point[1])]
                    t[0], t[1], t[2], t[3] = t[0] + point[2], t[1] + point[3], t[2] + point[4], max(t[3], point[5])
        return each

    def rates(self, amounts):
        return [amount / self.length_s(n) if self.length_s(n) >= self.step_s / 2 else None
                for n, amount in enumerate(amounts)]


def same_list(what, ours, theirs):
    same(f"{what} length", len(ours), len(theirs))
    for n, (one, other) in enumerate(zip(ours, theirs)):
        same(f"{what} {n}", one, other)


def check_pictures(run, test, report, window, name):
    """Charts and heat maps."""
    steps = Steps(window, 0)
    charts = {}
    if report["throughput"]:
        three = {"Database reads": "transactional_read", "Database writes": "transactional_write", "Log writes": "log_write"}
        of = {line: steps.totals(run, test, measure, {}) for line, measure in three.items()}
        charts["I/O per second"] = {line: steps.rates([t[0] for t in each]) for line, each in of.items()}
        charts["Mean latency"] = {line: [t[2] / t[0] / 1e6 if t[0] else None for t in each] for line, each in of.items()}
        charts["Longest latency of a single I/O"] = {line: [t[3] / 1e6 if t[0] else None for t in each]
                                                     for line, each in of.items()}
    else:
        lines = {}
        for measure, title in report_page.MEASURES.items():
            each = steps.totals(run, test, measure, {})
            if any(t[1] for t in each):
                lines[title] = steps.rates([t[1] / MIB for t in each])
        charts["Throughput"] = lines
    wanted = {title: lines for title, lines in charts.items()
              if any(sum(value is not None for value in values) > 2 for values in lines.values())}
    same(f"charts: {name}", list(wanted), [chart["title"] for chart in report["charts"]])
    for chart in report["charts"]:
        same_row(f"charts: {name} {chart['title']}", chart, duration_s=steps.duration_s, step_s=steps.step_s)
        lines = wanted.get(chart["title"], {})
        same(f"charts: {name} lines", list(lines), [line["name"] for line in chart["lines"]])
        for line in chart["lines"]:
            same_list(f"charts: {name} {chart['title']} {line['name']}", lines.get(line["name"], []), line["values"])
        limits = {}
        if chart["title"] == "Mean latency":
            stated = {limit["rule"]: limit["value"] for limit in json.loads(test.get("limits") or "[]")}
            for rule, title in [("read_latency_avg", "Limit for reads"), ("log_write_latency_avg", "Limit for log writes")]:
                judged = [v["limit"] for v in report["verdicts"] if v["rule"] == rule]
                if rule in stated or judged:
                    limits[title] = stated.get(rule, judged[0] if judged else None)
        same(f"charts: {name} limits", str(limits), str({limit["name"]: limit["value"] for limit in chart["limits"]}))
    slices = [row for s in run.chosen(test, "transactional_read", {}) for row in run.slices.get(s["id"], [])
              if in_window((row["t_ms"], row["interval_ms"]), window)]
    same(f"latency map: {name} known", bool(slices), report["latency_map"] is not None)
    if slices and report["latency_map"]:
        steps = Steps(window, max(row["interval_ms"] for row in slices) / 1e3)
        columns = [collections.Counter() for _ in range(steps.count)]
        for row in slices:
            for value, count in hdr_buckets(row["hdr_v2"]):
                columns[steps.of(row["t_ms"], row["interval_ms"])][math.floor(math.log2(max(value, 1)) * 4)] += count
        low, high = min(min(c) for c in columns if c), max(max(c) for c in columns if c)
        told = report["latency_map"]
        same_row(f"latency map: {name}", told, duration_s=steps.duration_s, step_s=steps.step_s)
        same_list(f"latency map: {name} bounds", [2 ** (n / 4) / 1e3 for n in range(low, high + 2)], told["bounds_ms"])
        for n, column in enumerate(columns):
            same_list(f"latency map: {name} {n}", [column[bin] for bin in range(low, high + 1)], told["columns"][n])
    if report["instance_map"]:
        steps = Steps(window, test["sample_ms"] / 1e3)
        told = report["instance_map"]
        same_row(f"instance map: {name}", told, duration_s=steps.duration_s, step_s=steps.step_s)
        same(f"instance map: {name} rows", len(report["instances"]), len(told["rows"]))
        for row in told["rows"]:
            each = steps.totals(run, test, "transactional_read", {"host": row["host"], "instance": row["instance"]})
            means = [t[2] / t[0] / 1e6 if t[0] else None for t in each]
            same_list(f"instance map: {name} {row['instance']}", means, row["latency_ms_mean"])


def check_hosts(run, test, report, window, name):
    """Processors and memory, second by second; and whether the load generator was the limit."""
    def points(host, measure):
        return [p for s in run.chosen(test, measure, {"host": host}) for p in run.points.get(s["id"], [])
                if in_window(p, window)]

    def joined(slices):
        """Mean, least and highest share of (length, part, whole); a slice under half a second joins a neighbour."""
        seconds = []
        for slice in slices:
            if seconds and (seconds[-1][0] < 500 or slice[0] < 500):
                seconds[-1] = tuple(one + other for one, other in zip(seconds[-1], slice))
            else:
                seconds.append(slice)
        if not slices:
            return None
        each = [100 * part / whole for _, part, whole in seconds]
        return 100 * sum(s[1] for s in slices) / sum(s[2] for s in slices), min(each), max(each)

    def shares(host, part, whole):
        return joined([(p[1], p[2], w[2]) for p, w in zip(points(host, part), points(host, whole)) if w[2]])

    hosts = sorted({s["host"] for s in run.sources if s["test"] == test["ordinal"] and s["measure"] == "cpu_busy_ns"})
    wanted = {}
    busy = {}
    for host in hosts:
        busiest = joined([(p[1], p[2], p[1] * 1e6) for p in points(host, "cpu_busiest_thread_ns") if p[1]])
        memory = points(host, "host_memory_available_bytes")
        levels = [p[2] / MIB for p in memory]
        wanted[host, "Processors of the host, busy"] = shares(host, "host_cpu_busy_ns", "host_cpu_available_ns")
        wanted[host, "Processors, busy for the load generator"] = shares(host, "cpu_busy_ns", "cpu_available_ns")
        wanted[host, "Busiest thread of the load generator"] = busiest
        wanted[host, "Memory available"] = levels and (
            sum(p[1] * p[2] for p in memory) / sum(p[1] for p in memory) / MIB, min(levels), max(levels))

        def whole(measure):
            return sum(p[2] for p in points(host, measure))

        if whole("cpu_available_ns"):
            lengths = sum(p[1] for p in points(host, "cpu_busiest_thread_ns"))
            busy[host] = (whole("cpu_busy_ns") / whole("cpu_available_ns"),
                          whole("cpu_busiest_thread_ns") / (lengths * 1e6),
                          whole("host_cpu_busy_ns") / whole("host_cpu_available_ns"))
    told = {(row["host"], row["name"]): row for row in report["host_system"]}
    same(f"host system: {name} rows", sum(1 for values in wanted.values() if values), len(told))
    for key, values in wanted.items():
        if values and key in told:
            for field, value in zip(["mean", "min", "max"], values):
                same(f"host system: {name} {key} {field}", value, told[key][field])
    generator = report["generator"]
    same(f"generator: {name} known", bool(busy), generator is not None)
    if busy and generator:
        program, thread, host = busy[generator["host"]]
        same(f"generator: {name} least room", max(map(max, busy.values())), max(program, thread, host))
        same(f"generator: {name} program", program, generator["program_busy"])
        same(f"generator: {name} thread", thread, generator["busiest_thread_busy"])
        same(f"generator: {name} host", host, generator["host_busy"])
        same(f"generator: {name} limit", str(program > 0.9 or thread > 0.9 or host > 0.95), str(generator["was_limit"]))


def check_volumes(run, test, report, window, spans, name):
    """What the databases and logs of each volume did. A copy counts where the backup wrote it."""
    if test["kind"] == "restore":
        same(f"volumes: {name} rows", 0, len(report["volumes"]))
        return

    def volume_of(host, path):
        above = [v for v in run.volumes if v["host"] == host and
                 (path + "/").startswith(v["path"].rstrip("/") + "/")]
        return max(above, key=lambda v: len(v["path"]))["name"] if above else None

    copies = {(b["host"], b["instance"], b["database"]): b["destination"]
              for b in run.rows("SELECT * FROM backup WHERE test = ?", test["ordinal"]) if b["destination"]}
    files = [((d["host"], d["instance"], d["name"]), d["path"]) for d in run.databases]
    files += [((i["host"], i["name"], None), i["log_path"]) for i in run.instances]
    wanted = {}
    for key, path in files:
        for column, measures, at in [("reads", READS, path), ("writes", WRITES, path),
                                     ("reads", ["verify_read"], copies.get(key, path)),
                                     ("writes", ["backup_write"], copies.get(key, path))]:
            volume = volume_of(key[0], at)
            scope = {"host": key[0], "instance": key[1], "database": key[2]}
            for source in run.sources:
                if source["test"] == test["ordinal"] and source["measure"] in measures and volume and \
                        all(source[k] == v for k, v in scope.items()):
                    points = [p for p in run.points.get(source["id"], []) if in_window(p, window)]
                    if any(p[2] for p in points):
                        wanted.setdefault((key[0], volume), {}).setdefault(column, []).append(source)
    told = {(v["host"], v["volume"]): v for v in report["volumes"]}
    same(f"volumes: {name} which", str(sorted(wanted)), str(sorted(told)))
    for key, columns in wanted.items():
        row = told.get(key, {"reads": None, "writes": None})
        for column in ["reads", "writes"]:
            ours = figures_of(run, test, window, spans, columns[column]) if column in columns else None
            same_fields(f"volumes: {name} {key} {column}", ours, row[column])
        on = [origin for origin, path in files if (origin[0], volume_of(origin[0], path)) == key]
        databases = sum(1 for origin in on if origin[2] is not None)
        same_row(f"volumes: {name} {key}", row, databases=databases, logs=len(on) - databases)


def check_planned(run, test, report, window, name):
    target, per_mailbox = test["target_iops"], test.get("iops_per_mailbox") or None
    load = report["throughput"]
    achieved = load and load["transactional_iops"]
    seconds = (window[1] - window[0]) / 1e3 if test["window_start_ms"] is not None else None
    planned_s = None if test["window_planned_ms"] is None else test["window_planned_ms"] / 1e3

    def mailboxes(iops):
        return iops / per_mailbox if iops is not None and per_mailbox else None

    wanted = [
        ("Measured window", planned_s, seconds),
        ("Transactional I/O", target, achieved),
        ("Mailboxes that this I/O carries", mailboxes(target), mailboxes(achieved)),
        ("I/O per mailbox, for the planned mailboxes", per_mailbox if target is not None else None,
         achieved / mailboxes(target) if achieved is not None and mailboxes(target) else None),
        ("Batches", test["target_batches_per_s"], load and load["batches_per_s"]),
    ]
    wanted = [row for row in wanted if row[1] is not None]
    same(f"planned: {name} rows", [row[0] for row in wanted], [row["name"] for row in report["planned"]])
    for (what, planned, achieved), row in zip(wanted, report["planned"]):
        same_row(f"planned: {name} {what}", row, planned=planned, achieved=achieved)
    steps = run.rows("SELECT * FROM tuning_step WHERE test = ? ORDER BY rowid", test["ordinal"])
    targets = [test["target_iops"]] + [t["target_iops"] for t in run.tests]
    goal = next((t for t in targets if t), None)
    same(f"tuning: {name} steps", len(steps), len(report["tuning"]))
    for ours, theirs in zip(steps, report["tuning"]):
        same_row(f"tuning: {name} {ours['ordinal']}", theirs, of_target=ours["iops"] / goal if goal else None,
                 **{key: ours[key] for key in ["ordinal", "load", "iops", "read_latency_ms", "log_write_latency_ms",
                                               "outcome", "note"]})
    same(f"headroom: {name} known", bool(steps), report["headroom"] is not None)
    if steps:
        held = max((s["iops"] for s in steps if s["outcome"] == "pass"), default=None)
        broken = min((s["iops"] for s in steps if s["outcome"] == "fail"), default=None)
        same_row(f"headroom: {name}", report["headroom"], target_iops=goal, held_iops=held, broken_iops=broken,
                 beyond_target=held / goal - 1 if held and goal else None)


def place(row):
    return {key: row[key] for key in ["host", "instance", "database"]}


def check_statistics(run, test, report, window, name):
    def stored(table, told):
        rows = run.rows(f"SELECT * FROM {table} WHERE test = ? ORDER BY rowid", test["ordinal"])
        same(f"{table}: {name} rows", len(rows), len(told))
        return zip(rows, told)

    def timed(row):
        seconds = row["elapsed_ms"] / 1e3
        there = row["bytes_expected"] if "bytes_expected" in row.keys() else None
        return {"bytes": row["bytes"], "bytes_expected": there, "read_share": row["bytes"] / there if there else None,
                "elapsed_s": seconds, "mib_per_s": row["bytes"] / MIB / seconds if seconds else None}

    for ours, theirs in stored("database_size", report["sizes"]):
        same_row(f"sizes: {name}", theirs, bytes_before=ours["bytes_before"], bytes_after=ours["bytes_after"], **place(ours))
    counts = ["files", "pages", "uninitialised_pages", "bad_pages", "correctable_pages", "wrong_number_pages"]
    for ours, theirs in stored("checksum", report["checksums"]):
        same_row(f"checksum: {name}", theirs, **place(ours), **timed(ours), **{key: ours[key] for key in counts})
    for ours, theirs in stored("backup", report["backups"]):
        same_row(f"backup: {name}", theirs, destination=ours["destination"], **place(ours), **timed(ours))
    kinds = ["processor", "link", "controller", "store", "pool", "volume", "drive"]
    # Runs that were recorded before there was this table have no such rows.
    parts = run.rows("SELECT * FROM storage_part WHERE test = ? ORDER BY rowid", test["ordinal"]) \
        if "storage_part" in run.tables else []
    parts.sort(key=lambda part: kinds.index(part["kind"]))
    same(f"storage_part: {name} rows", len(parts), len(report["storage_parts"]))
    for ours, theirs in zip(parts, report["storage_parts"]):
        same_row(f"storage_part: {name} {ours['name']}", theirs, **{key: ours[key] for key in theirs})
    for ours, theirs in stored("recovery", report["recoveries"]):
        logs = ours["logs"]
        scope = {"host": ours["host"], "instance": ours["instance"]}

        def per_log(measure):
            counted = logs and test["kind"] != "restore"
            return totals(run, test, window, [measure], scope)[0] / logs if counted else None

        same_row(f"recovery: {name}", theirs, logs=logs, elapsed_s=ours["elapsed_ms"] / 1e3,
                 s_per_log=ours["elapsed_ms"] / 1e3 / logs if logs else None, reads_per_log=per_log("transactional_read"),
                 writes_per_log=per_log("transactional_write"), log_reads_per_log=per_log("log_read"), **place(ours))


def check_verdicts(run, report):
    failed = passed = 0
    tests = [t["ordinal"] for t in report["tests"]] + [None]
    groups = [t["verdicts"] for t in report["tests"]] + [report["run_verdicts"]]
    for ordinal, told in zip(tests, groups):
        stored = run.rows("SELECT * FROM verdict WHERE test IS ? ORDER BY rowid", ordinal)
        same(f"verdicts: test {ordinal} rows", len(stored), len(told))
        for ours, theirs in zip(stored, told):
            same_row(f"verdicts: test {ordinal} {ours['rule']}", theirs, limit=ours["threshold"], **place(ours),
                     **{key: ours[key] for key in ["rule", "text", "measured", "comparison", "unit", "outcome"]})
            measured, limit = theirs["measured"], theirs["limit"]
            if theirs["outcome"] != "info" and measured is not None and limit is not None:
                holds = {"at_most": measured <= limit, "below": measured < limit, "at_least": measured >= limit}
                same(f"verdicts: {theirs['rule']}", "pass" if holds[theirs["comparison"]] else "fail", theirs["outcome"])
            failed += theirs["outcome"] == "fail"
            passed += theirs["outcome"] == "pass"
    same_row("verdicts: all", report["verdict"], failed=failed, passed=passed)
    check_conditions(run, report)
    row = run.rows("SELECT * FROM run")[0]
    unproved = any(v["outcome"] == "unproved" for group in groups for v in group)
    complete = (row["ending"] == "completed" and passed > 0 and not unproved
                and all(t["ended_ms"] is not None for t in run.tests))
    qualifies = all(condition["met"] for condition in report["verdict"]["conditions"])
    grade = "failed" if failed else "incomplete" if not complete else "qualified" if qualifies else "held"
    same("verdicts: grade", grade, report["verdict"]["grade"])
    outcome = {"failed": "fail", "incomplete": "incomplete"}.get(grade, "pass")
    same("verdicts: outcome", outcome, report["verdict"]["outcome"])


SHAPE = {
    "reads_per_batch": "Database page reads per batch",
    "writes_per_batch": "Database page writes per batch",
    "log_writes_per_batch": "Log writes per batch",
    "log_file_kib_per_batch": "Log files per batch",
}
STEADY = {
    "throughput_change_percent": "iops_change_max",
    "write_change_percent": "writes_change_max",
    "latency_change_percent": "latency_change_max",
    "write_start_percent": "write_start",
}


def share(part, whole):
    return 100 * part / whole if whole else None


def check_conditions(run, report):
    """The figures of the conditions of a qualification, from run.db and from figures that were compared above."""
    rules = {row["name"]: row for row in run.rows("SELECT * FROM rule")}
    claims = run.rows("SELECT * FROM claim")
    told = report["verdict"]["conditions"]
    loads = [t for t in report["tests"] if t["kind"] in ("performance", "stress") and t["throughput"]]
    for condition in told:
        name, rule = condition["name"], rules.get(condition["name"])
        if rule:
            same_row(f"conditions: {name}", condition,
                     **{key: rule[key] for key in ["unit", "least", "most", "published_least", "published_most"]})
        least, most = condition["least"], condition["most"]
        same(f"conditions: {name} figure", figure_of(run, report, loads, rules, claims, name, least), condition["measured"], 1e-6)
        value = condition["measured"]
        met = (value is not None and (least is not None or most is not None) and (least is None or value >= least)
               and (most is None or value <= most))
        same(f"conditions: {name} met", met, condition["met"])


def hosts_measured(run, ordinal):
    return {s["host"] for s in run.sources if s["test"] == ordinal and s["measure"] not in COUNTERS}


def figure_of(run, report, loads, rules, claims, name, least):
    claim = claims[0] if claims else None
    rows = {t["ordinal"]: t for t in run.tests}
    targets = {t["ordinal"]: rows[t["ordinal"]]["target_iops"] for t in loads if rows[t["ordinal"]]["target_iops"]}
    with_target = [t for t in loads if t["ordinal"] in targets]
    instances = [(i["host"], i["name"]) for i in run.rows("SELECT * FROM instance")]
    caches = {(i["host"], i["name"]): i["cache_max_bytes"] for i in run.rows("SELECT * FROM instance")}
    databases = {(d["host"], d["instance"], d["name"]): d["page_bytes"] for d in run.rows("SELECT * FROM database")}
    checksums = run.rows("SELECT * FROM checksum")
    sizes = run.rows("SELECT * FROM database_size")
    present = [hosts_measured(run, t["ordinal"]) for t in loads] or [
        set().union(*(hosts_measured(run, t["ordinal"]) for t in run.tests))]
    present = set.intersection(*present)

    def lowest(values):
        values = list(values)
        return None if None in values or not values else min(values)

    if name == "rules_percent":
        return 100.0 if claim and rules else 0.0
    if name == "load_tests":
        return len(loads)
    if name == "target_set_percent":
        return share(len(targets), len(loads))
    if name == "target_met_percent":
        return lowest(100 * t["throughput"]["transactional_iops"] / targets[t["ordinal"]] for t in with_target)
    if name == "worst_failure_percent":
        figure = lowest(100 * targets[t["ordinal"]] / len(present) / claim["iops_per_server"] for t in with_target)
        return 100.0 if figure is not None and abs(figure - 100) < 0.01 else figure
    if name in ("performance_window_s", "stress_window_s"):
        kind = name.split("_")[0]
        length = lowest(t["window"]["duration_s"] for t in loads if t["kind"] == kind)
        return round(length) if length < least and least - length < 0.5 else length
    if name == "cache_ratio":
        ratios = []
        for host, instance in instances:
            own = [s for s in sizes if (s["host"], s["instance"]) == (host, instance)
                   and any(t["ordinal"] == s["test"] for t in loads)]
            first = [s["bytes_before"] for s in own if s["test"] == min(o["test"] for o in own)]
            ratios.append(sum(first) / caches[(host, instance)] if first else None)
        return lowest(ratios)
    if name == "cache_filled_percent":
        shares = []
        for test in loads:
            opened = rows[test["ordinal"]]["window_start_ms"]
            for place in instances:
                points = [p for s in run.sources if (s["test"], s["host"], s["instance"], s["database"], s["measure"])
                          == (test["ordinal"], *place, None, "cache_bytes") for p in run.points.get(s["id"], [])]
                nearest = min(points, key=lambda p: abs(p[0] + p[1] - opened), default=None)
                shares.append(100 * nearest[2] / caches[place] if nearest else None)
        return lowest(shares)
    if name in SHAPE or name in STEADY:
        values = []
        for test in loads:
            if name in SHAPE:
                values.append(next((r["measured"] for r in test["load_shape"] if r["name"] == SHAPE[name]), None))
            else:
                value = test["steadiness"] and test["steadiness"][STEADY[name]]
                values.append(None if value is None else 100 * value)
        rule = rules.get(name) or {"least": least, "most": None}
        low, high = rule["least"], rule["most"]
        if None in values:
            return None
        return max(values, key=lambda v: max(-math.inf if low is None else low - v, -math.inf if high is None else v - high))
    if name == "tests":
        wanted = json.loads(claim["tests"]) if claim else [
            "performance", "stress", "database_checksum", "log_checksum", "backup", "soft_recovery"]
        done = {t["kind"] for t in run.tests if t["ended_ms"] is not None}
        return sum(1 for kind in wanted if kind in done or kind == "backup" and "backup_to_disk" in done)
    if name == "verified_percent":
        last = max((t["ordinal"] for t in loads), default=0)
        done = {t["ordinal"] for t in run.tests if t["kind"] == "database_checksum" and t["ended_ms"] is not None}
        seen = {(c["host"], c["instance"], c["database"]) for c in checksums if c["test"] > last and c["test"] in done}
        return share(len(seen & set(databases)), len(databases))
    if name == "coverage_percent":
        shares = []
        for row in checksums:
            if row["database"] is not None:
                there = row["bytes_expected"] if "bytes_expected" in row.keys() else None
                shares.append(100 * min(1, row["bytes"] / there) if there else None)
        return lowest(shares)
    if name == "logs_verified_percent":
        seen = {(c["host"], c["instance"]) for c in checksums if c["database"] is None and c["files"] > 0}
        return share(len(seen & set(instances)), len(instances))
    if name == "hosts_percent":
        wanted = json.loads(claim["hosts"]) if claim else [h["name"] for h in run.rows("SELECT * FROM host")]
        return share(sum(1 for host in wanted if host in present), len(wanted))
    if name == "unbuffered_percent":
        good = {c["host"] for c in report["checks"] if c["name"] == "Unbuffered I/O" and c["outcome"] == "good"}
        hosts = [h["name"] for h in run.rows("SELECT * FROM host")]
        return share(sum(1 for host in hosts if host in good), len(hosts))
    environment = run.rows("SELECT * FROM environment")
    if name == "on_storage_percent":
        known = {(e["host"], e["area"]) for e in environment if e["name"] == "File system" and e["severity"] != "error"}
        volumes = run.rows("SELECT * FROM volume")
        return share(sum(1 for v in volumes if (v["host"], f"Volume {v['name']}") in known), len(volumes))
    if name == "excused_limits":
        holds = {"at_most": lambda m, l: m <= l, "below": lambda m, l: m < l, "at_least": lambda m, l: m >= l}
        info = run.rows("SELECT * FROM verdict WHERE outcome = 'info'")
        return sum(1 for v in info if v["measured"] is not None and v["threshold"] is not None
                   and not holds[v["comparison"]](v["measured"], v["threshold"]))
    if name == "errors":
        noted = [e for e in environment if e["severity"] == "error"
                 and not (e["area"].startswith("Volume ") and e["name"] == "File system")]
        return len(noted) + len(run.rows("SELECT * FROM event WHERE severity = 'error'"))
    return None


def check_run(run, report):
    row = run.rows("SELECT * FROM run")[0]
    events = run.rows("SELECT * FROM event ORDER BY t_ms, rowid")
    moments = [t for test in run.tests for t in [test["started_ms"], test["ended_ms"]]] + [row["ended_ms"]]
    moments += [event["t_ms"] for event in events]
    measures = {s["id"]: s["measure"] for s in run.sources}
    moments += [points[-1][0] + points[-1][1] for id, points in run.points.items() if measures[id] not in COUNTERS]
    same_row("run: head", report["run"], duration_s=max([t for t in moments if t is not None], default=0) / 1e3,
             **{key: row[key] for key in ["id", "solution", "solution_text", "tool_version", "world", "world_detail", "seed",
                                          "ending"]})
    same_row("run: form", report, format="proofload-report", version=1)
    same("events: rows", len(events), len(report["events"]))
    for ours, theirs in zip(events, report["events"]):
        same_row("events: row", theirs, t_s=ours["t_ms"] / 1e3,
                 **{key: ours[key] for key in ["severity", "test", "host", "text"]})
    environment = run.rows("SELECT * FROM environment ORDER BY rowid")
    same("environment: rows", len(environment), len(report["environment"]))
    for ours, theirs in zip(environment, report["environment"]):
        same_row("environment: row", theirs, **{key: ours[key] for key in ["host", "area", "name", "value", "severity", "note"]})
    same("instances: rows", len(run.instances), len(report["instances"]))
    told = {(row["host"], row["instance"]): row for row in report["instances"]}
    for ours in run.instances:
        same_row("instances: row", told[ours["host"], ours["name"]],
                 **{key: ours[key] for key in ["log_path", "log_file_bytes", "cache_min_bytes", "cache_max_bytes"]})
    same("databases: rows", len(run.databases), len(report["databases"]))
    told = {(row["host"], row["instance"], row["database"]): row for row in report["databases"]}
    for ours in run.databases:
        key = (ours["host"], ours["instance"], ours["name"])
        sizes = run.rows("SELECT * FROM database_size WHERE host = ? AND instance IS ? AND database IS ? ORDER BY test", *key)
        after = sizes and (sizes[-1]["bytes_before"] if sizes[-1]["bytes_after"] is None else sizes[-1]["bytes_after"])
        same_row("databases: row", told[key], path=ours["path"], page_bytes=ours["page_bytes"],
                 bytes_before=sizes[0]["bytes_before"] if sizes else None, bytes_after=after or None)


def check_junit(report, text):
    """A suite per test and one for the run; a case per judgement."""
    root = ElementTree.fromstring(text)
    suites = root.findall("testsuite")
    same("junit: suites", len(report["tests"]) + 2, len(suites))
    qualification, suites = suites[0], suites[1:]
    conditions = report["verdict"]["conditions"]
    same("junit: conditions", [c["name"] for c in conditions], [c.get("name") for c in qualification.findall("testcase")])
    skipped = [c.get("name") for c in qualification.findall("testcase") if c.find("skipped") is not None]
    same("junit: not proved", [c["name"] for c in conditions if not c["met"]], skipped)
    groups = [t["verdicts"] for t in report["tests"]] + [report["run_verdicts"]]
    unfinished = int(report["verdict"]["grade"] == "incomplete")
    for suite, verdicts in zip(suites, groups):
        judged = [v for v in verdicts if v["outcome"] != "info"]
        extra = unfinished if suite is suites[-1] else 0
        same("junit: cases", len(judged) + extra, len(suite.findall("testcase")))
        same("junit: rules", [v["rule"] for v in judged], [c.get("name") for c in suite.findall("testcase")][: len(judged)])
        failing = [c.get("name") for c in suite.findall("testcase") if c.find("failure") is not None]
        same("junit: failing", [v["rule"] for v in judged if v["outcome"] == "fail"], failing)
    for suite in [qualification, *suites]:
        for kind, tag in [("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error"),
                          ("skipped", "testcase/skipped")]:
            same(f"junit: {kind}", len(suite.findall(tag)), int(suite.get(kind)))
    for kind in ["tests", "failures", "errors", "skipped"]:
        same(f"junit: all {kind}", sum(int(suite.get(kind)) for suite in [qualification, *suites]), int(root.get(kind)))
    same("junit: errors", unfinished, int(root.get("errors")))


def check(run, report):
    check_run(run, report)
    same("tests: number", len(run.tests), len(report["tests"]))
    for test, told in zip(run.tests, report["tests"]):
        check_test(run, test, told)
    check_verdicts(run, report)


def numbers(value, path=()):
    """The place of every number."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from numbers(part, path + (key,))
    elif isinstance(value, list):
        for n, part in enumerate(value):
            yield from numbers(part, path + (n,))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path


def unnoticed(run, report):
    """The fields of which a changed number is not found."""
    places = {}
    for path in numbers(report):
        # The last of a field: loops that end too early are found as well.
        places[re.sub(r"\[\d+\]", "[]", "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path))] = path
    missed = []
    for field, path in places.items():
        changed = copy.copy(report)
        at = changed
        for key in path[:-1]:
            at[key] = copy.copy(at[key])
            at = at[key]
        at[path[-1]] = at[path[-1]] * 2 + 1
        differences.clear()
        if path[0] == "tests":
            check_test(run, run.tests[path[1]], changed["tests"][path[1]])
            check_verdicts(run, changed)
        else:
            check(run, changed)
        if not differences:
            missed.append(field)
    differences.clear()
    print(f"{len(places)} fields changed in turn, {len(missed)} changes unnoticed")
    return missed


def main():
    arguments = [a for a in sys.argv[1:] if a != "--every-figure"]
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    folder = arguments[0]
    run = Run(os.path.join(folder, "run.db"))

    def read(name):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return file.read()

    report = json.loads(read("report.json"))
    if "--every-figure" in sys.argv:
        missed = unnoticed(run, report)
        print("\n".join(missed))
        return 1 if missed else 0
    check(run, report)
    report_page.check(report, read("report.html"), same)
    check_junit(report, read("junit.xml"))
    for line in differences[:50]:
        print(line)
    print(f"{sum(compared.values())} figures compared, {len(differences)} differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
