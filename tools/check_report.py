#!/usr/bin/env python3
"""Checks report.json against run.db, without any code of Proofload.

usage: check_report.py RUN_FOLDER

Recomputes rates, means, means of samples, percentiles, sums and judgements from the rows of run.db (docs/run-db.md) and
compares them with report.json; then looks that report.html states the figures of the JSON. Prints how much was compared;
every difference is a line, and the exit status is 1 if there was any.
"""

import collections
import json
import math
import os
import sqlite3
import sys
import zlib

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
    elif isinstance(ours, str) or isinstance(theirs, str):
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


def quantile(buckets, count, q):
    wanted = max(1, math.ceil(q * count - 1e-9 * count))
    seen = 0
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
        tables = [row[0] for row in self.db.execute("SELECT name FROM sqlite_master")]
        self.volumes = self.rows("SELECT * FROM volume") if "volume" in tables else []
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


def sample_starts(run, test, window):
    sample = max(test["sample_ms"], 1)
    taken = sorted((p[0], p[1]) for s, points in run.of(test) if s["instance"] is not None
                   for p in points if in_window(p, window))
    kept = []
    for point in taken:
        if not kept or point[0] - kept[-1][0] >= sample // 2:
            kept.append(point)
    if not kept:
        return [window[0] + n * sample for n in range((window[1] - window[0]) // sample)]
    if len(kept) > 1 and kept[-1][1] < sample // 2:
        kept.pop()
    return [t for t, _ in kept]


def sample_index(starts, sample, point):
    middle = point[0] + point[1] // 2
    low, high = 0, len(starts)
    while low < high:
        mid = (low + high) // 2
        if starts[mid] <= middle:
            low = mid + 1
        else:
            high = mid
    index = low - 1
    if index < 0 or (index == len(starts) - 1 and middle >= starts[index] + sample + sample // 2):
        return None
    return index


def figures(run, test, window, starts, measures, scope):
    sample = max(test["sample_ms"], 1)
    total = [0, 0, 0, 0]
    each = [[0, 0, 0] for _ in starts]
    for measure in measures:
        for source in run.chosen(test, measure, scope):
            for point in run.points.get(source["id"], []):
                if not in_window(point, window):
                    continue
                _, _, count, size, latency, longest = point
                total = [total[0] + count, total[1] + size, total[2] + latency, max(total[3], longest)]
                index = sample_index(starts, sample, point)
                if index is not None:
                    each[index] = [each[index][0] + count, each[index][1] + size, each[index][2] + latency]
    if total[0] == 0:
        return None
    seconds = (window[1] - window[0]) / 1e3
    latencies = [s[2] / s[0] / 1e6 if s[0] else 0.0 for s in each]
    sizes = [s[1] / s[0] if s[0] else 0.0 for s in each]
    return {
        "count": total[0],
        "per_s": total[0] / seconds,
        "mib_per_s": total[1] / MIB / seconds,
        "bytes_mean": total[1] / total[0],
        "bytes_sample_mean": sum(sizes) / len(sizes) if sizes else None,
        "latency_ms_mean": total[2] / total[0] / 1e6,
        "latency_ms_sample_mean": sum(latencies) / len(latencies) if latencies else None,
        "latency_ms_sample_max": max((x for x, s in zip(latencies, each) if s[0]), default=None),
        "latency_ms_max": total[3] / 1e6,
        "outstanding": total[2] / 1e9 / seconds,
    }


def percentiles(run, test, window, measure, scope):
    buckets, longest = collections.Counter(), 0
    for source in run.chosen(test, measure, scope):
        for row in run.slices.get(source["id"], []):
            if in_window((row["t_ms"], row["interval_ms"]), window):
                for value, count in hdr_buckets(row["hdr_v2"]):
                    buckets[value] += count
                longest = max(longest, row["latency_ns_max"])
    count = sum(buckets.values())
    out = {"count": count, "max_ms": longest / 1e6 if count else None}
    for name, q, one_in in [("p50_ms", 0.5, 2), ("p90_ms", 0.9, 10), ("p95_ms", 0.95, 20), ("p99_ms", 0.99, 100),
                            ("p99_9_ms", 0.999, 1000), ("p99_99_ms", 0.9999, 10000)]:
        out[name] = min(quantile(buckets, count, q) / 1e3, longest / 1e6) if count >= one_in else None
    return out


def same_fields(what, ours, theirs):
    if ours is None or theirs is None:
        same(what, ours, theirs)
        return
    for key, value in ours.items():
        same(f"{what} {key}", value, theirs[key])


def check_test(run, test, report):
    name = f"test {test['ordinal']}"
    window = run.window(test)
    starts = sample_starts(run, test, window)
    seconds = (window[1] - window[0]) / 1e3
    if test["window_start_ms"] is not None:
        same(f"{name} window: length", seconds, report["window"]["duration_s"])
        same(f"{name} window: samples", len(starts), report["window"]["samples"])
    seen = set()
    for row in report["measures"]:
        measure = row["measure"]
        seen.add(measure)
        same_fields(f"figures: {name} {measure}", figures(run, test, window, starts, [measure], {}), row["figures"])
        same_fields(f"percentiles: {name} {measure}", percentiles(run, test, window, measure, {}), row["percentiles"])
    for source, points in run.of(test):
        counted = any(in_window(p, window) and p[2] for p in points)
        if counted and source["measure"] not in COUNTERS | seen:
            differences.append(f"{name}: {source['measure']} is in run.db but not in the report")
    for row in report["hosts"]:
        scope = {"host": row["host"]}
        what = f"host figures: {name} {row['host']} {row['measure']}"
        same_fields(what, figures(run, test, window, starts, [row["measure"]], scope), row["figures"])
        same_fields(what, percentiles(run, test, window, row["measure"], scope), row["percentiles"])
    columns = {"reads": ["transactional_read"], "writes": ["transactional_write"], "maintenance": ["maintenance_read"],
               "all_reads": ["transactional_read", "maintenance_read"], "log_writes": ["log_write"],
               "log_reads": ["log_read"], "replication": ["replication_read"]}
    for kind, keys in [("instances", ("host", "instance")), ("databases", ("host", "instance", "database"))]:
        for row in report[kind]:
            scope = {key: row[key] for key in keys}
            for column, measures in columns.items():
                what = f"{kind} figures: {name} {row['instance']} {column}"
                same_fields(what, figures(run, test, window, starts, measures, scope), row[column])
            for column, measure in [("read_percentiles", "transactional_read"), ("log_write_percentiles", "log_write")]:
                what = f"{kind} percentiles: {name} {row['instance']} {column}"
                same_fields(what, percentiles(run, test, window, measure, scope), row[column])
    check_sums(name, report)
    check_load(run, test, report, window, name)
    check_hosts(run, test, report, window, name)
    check_volumes(run, test, report, window, starts, name)
    check_planned(run, test, report, window, name)
    check_statistics(run, test, report, name)


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


def check_load(run, test, report, window, name):
    load = report["throughput"]
    if load is None:
        return
    count = {row["measure"]: row["figures"]["count"] for row in report["measures"]}
    seconds = (window[1] - window[0]) / 1e3
    transactional = count.get("transactional_read", 0) + count.get("transactional_write", 0)
    same(f"throughput: {name} iops", transactional / seconds, load["transactional_iops"])
    same(f"throughput: {name} batches", count["batch"], load["batches"])

    def counter(measure, scope):
        return sum(p[2] for s in run.chosen(test, measure, scope) for p in run.points.get(s["id"], [])
                   if in_window(p, window))

    logs = counter("log_generations", {})
    log_bytes = sum(counter("log_generations", {"host": i["host"], "instance": i["name"]}) * i["log_file_bytes"]
                    for i in run.instances)
    shape = {row["name"]: row["measured"] for row in report["load_shape"]}
    batches = count["batch"]
    same(f"shape: {name} reads", count.get("transactional_read", 0) / batches, shape["Database page reads per batch"])
    same(f"shape: {name} log files", log_bytes / 1024 / batches, shape["Log files per batch"])
    same(f"shape: {name} growth", counter("growth_bytes", {}) / batches, shape["Database growth per batch"])
    shipped = logs * (test["copies"] - 1)
    same(f"shape: {name} replication", count.get("replication_read", 0) / shipped if shipped else None,
         shape["Replication reads per log and extra copy"])


def check_hosts(run, test, report, window, name):
    """Processors and memory, second by second; and whether the load generator was the limit."""
    def points(host, measure):
        return [p for s in run.chosen(test, measure, {"host": host}) for p in run.points.get(s["id"], [])
                if in_window(p, window)]

    def shares(host, part, whole):
        return [100 * p[2] / w[2] for p, w in zip(points(host, part), points(host, whole)) if w[2]]

    hosts = sorted({s["host"] for s in run.sources if s["test"] == test["ordinal"] and s["measure"] == "cpu_busy_ns"})
    wanted = {}
    busy = {}
    for host in hosts:
        busiest = [p[2] / (p[1] * 1e4) for p in points(host, "cpu_busiest_thread_ns") if p[1]]
        wanted[host, "Processors of the host, busy"] = shares(host, "host_cpu_busy_ns", "host_cpu_available_ns")
        wanted[host, "Processors, busy for the load generator"] = shares(host, "cpu_busy_ns", "cpu_available_ns")
        wanted[host, "Busiest thread of the load generator"] = busiest
        wanted[host, "Memory available"] = [p[2] / MIB for p in points(host, "host_memory_available_bytes")]

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
            for field, value in [("mean", sum(values) / len(values)), ("min", min(values)), ("max", max(values))]:
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


def check_volumes(run, test, report, window, starts, name):
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
                        wanted.setdefault((key[0], volume), {}).setdefault(column, []).extend(points)
    told = {(v["host"], v["volume"]): v for v in report["volumes"]}
    same(f"volumes: {name} which", str(sorted(wanted)), str(sorted(told)))
    seconds = (window[1] - window[0]) / 1e3
    for key, columns in wanted.items():
        for column in ["reads", "writes"]:
            points, row = columns.get(column), told.get(key, {}).get(column)
            same(f"volumes: {name} {key} {column}", bool(points), row is not None)
            if points and row:
                count = sum(p[2] for p in points)
                same(f"volumes: {name} {key} {column} rate", count / seconds, row["per_s"])
                same(f"volumes: {name} {key} {column} mib", sum(p[3] for p in points) / MIB / seconds, row["mib_per_s"])
                same(f"volumes: {name} {key} {column} ms", sum(p[4] for p in points) / count / 1e6, row["latency_ms_mean"])


def check_planned(run, test, report, window, name):
    planned = {row["name"]: row for row in report["planned"]}
    target, per_mailbox = test["target_iops"], test.get("iops_per_mailbox")
    load = report["throughput"]
    if target and per_mailbox and load:
        row = planned["Mailboxes that this I/O carries"]
        same(f"planned: {name} mailboxes", target / per_mailbox, row["planned"])
        same(f"planned: {name} mailboxes achieved", load["transactional_iops"] / per_mailbox, row["achieved"])
        row = planned["I/O per mailbox, for the planned mailboxes"]
        same(f"planned: {name} per mailbox", load["transactional_iops"] * per_mailbox / target, row["achieved"])
    if load:
        sizes = run.rows("SELECT * FROM database_size WHERE test = ?", test["ordinal"])
        same(f"sizes: {name} before", sum(s["bytes_before"] for s in sizes) if sizes else None,
             load["database_bytes_before"])
        batches = [sum(p[2] for p in run.points.get(s["id"], []) if in_window(p, window)) for s in run.sources
                   if s["test"] == test["ordinal"] and s["measure"] == "batch" and s["database"] is not None]
        same(f"batches: {name} fewest", min(batches, default=None), load["database_batches_min"])
        same(f"batches: {name} most", max(batches, default=None), load["database_batches_max"])
    steps = run.rows("SELECT * FROM tuning_step WHERE test = ? ORDER BY rowid", test["ordinal"])
    targets = [test["target_iops"]] + [t["target_iops"] for t in run.tests]
    goal = next((t for t in targets if t), None)
    same(f"tuning: {name} steps", len(steps), len(report["tuning"]))
    for ours, theirs in zip(steps, report["tuning"]):
        same(f"tuning: {name} of target", ours["iops"] / goal if goal else None, theirs["of_target"])
    same(f"headroom: {name} known", bool(steps), report["headroom"] is not None)
    if steps:
        held = max((s["iops"] for s in steps if s["outcome"] == "pass"), default=None)
        same(f"headroom: {name} held", held, report["headroom"]["held_iops"])
        same(f"headroom: {name} beyond", held / goal - 1 if held and goal else None, report["headroom"]["beyond_target"])


def check_statistics(run, test, report, name):
    ordinal = test["ordinal"]
    for table, rows in [("checksum", report["checksums"]), ("backup", report["backups"])]:
        stored = run.rows(f"SELECT * FROM {table} WHERE test = ? ORDER BY rowid", ordinal)
        same(f"{table}: {name} rows", len(stored), len(rows))
        for ours, theirs in zip(stored, rows):
            same(f"{table}: {name} bytes", ours["bytes"], theirs["bytes"])
            rate = ours["bytes"] / MIB / (ours["elapsed_ms"] / 1e3) if ours["elapsed_ms"] else None
            same(f"{table}: {name} rate", rate, theirs["mib_per_s"])
            if table == "checksum":
                same(f"{table}: {name} bad pages", ours["bad_pages"], theirs["bad_pages"])
    stored = run.rows("SELECT * FROM recovery WHERE test = ? ORDER BY rowid", ordinal)
    same(f"recovery: {name} rows", len(stored), len(report["recoveries"]))
    for ours, theirs in zip(stored, report["recoveries"]):
        same(f"recovery: {name} s per log", ours["elapsed_ms"] / 1e3 / ours["logs"], theirs["s_per_log"])


def check_verdicts(run, report):
    failed = passed = 0
    stored = run.rows("SELECT * FROM verdict ORDER BY rowid")
    told = [v for t in report["tests"] for v in t["verdicts"]] + report["run_verdicts"]
    same("verdicts: rows", len(stored), len(told))
    for v in told:
        measured, limit = v["measured"], v["limit"]
        if v["outcome"] != "info" and measured is not None and limit is not None:
            holds = {"at_most": measured <= limit, "below": measured < limit, "at_least": measured >= limit}
            same(f"verdicts: {v['rule']}", "pass" if holds[v["comparison"]] else "fail", v["outcome"])
        failed += v["outcome"] == "fail"
        passed += v["outcome"] == "pass"
    same("verdicts: failed", failed, report["verdict"]["failed"])
    same("verdicts: passed", passed, report["verdict"]["passed"])
    row = run.rows("SELECT * FROM run")[0]
    complete = row["ending"] == "completed" and passed + failed > 0 and all(t["ended_ms"] is not None for t in run.tests)
    same("verdicts: overall", "fail" if failed else "pass" if complete else "incomplete", report["verdict"]["outcome"])


def check_html(report, html):
    def told(what, text):
        compared["html"] += 1
        if text not in html:
            differences.append(f"report.html does not say {text!r} ({what})")

    for test in report["tests"]:
        for row in test["measures"] if test["throughput"] else []:
            told(f"{test['name']} {row['measure']} per_s", f"{row['figures']['per_s']:,.2f}")
            told(f"{test['name']} {row['measure']} mean", f"{row['figures']['latency_ms_mean']:,.3f}")
            p99 = row["percentiles"]["p99_ms"]
            if p99 is not None:
                told(f"{test['name']} {row['measure']} p99", f"{p99:,.2f}")
        for row in test["volumes"]:
            if row["reads"]:
                told(f"{test['name']} {row['volume']} reads", f"{row['reads']['per_s']:,.3f}")
        for row in test["host_system"]:
            told(f"{test['name']} {row['name']}", f"{row['mean']:,.1f}")
        if test["generator"]:
            told(f"{test['name']} generator", f"{100 * test['generator']['program_busy']:,.1f}")
        if test["headroom"] and test["headroom"]["held_iops"]:
            told(f"{test['name']} headroom", f"{test['headroom']['held_iops']:,.1f}")
        for row in test["instances"] if test["throughput"] else []:
            if row["reads"]:
                told(f"{test['name']} {row['instance']} reads", f"{row['reads']['per_s']:,.3f}")


def main():
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder = sys.argv[1]
    run = Run(os.path.join(folder, "run.db"))
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    same("tests: number", len(run.tests), len(report["tests"]))
    for test, told in zip(run.tests, report["tests"]):
        check_test(run, test, told)
    check_verdicts(run, report)
    html = os.path.join(folder, "report.html")
    if os.path.exists(html):
        with open(html, encoding="utf-8") as file:
            check_html(report, file.read())
    for line in differences[:50]:
        print(line)
    print(f"{sum(compared.values())} figures compared, {len(differences)} differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
