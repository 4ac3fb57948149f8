"""What the report takes from rows as they are: the run, its set-up, events, verdicts, statistics of tests."""

import datetime
import json

import checks
import conditions
import seals
from compare import same, same_fields
from figures import MIB
from rundb import COUNTERS


def place(row):
    return {key: row[key] for key in ["host", "instance", "database"]}


def picked(row, *keys):
    return {key: row[key] for key in keys}


def run_head(run, report):
    row = run.run
    events = run.rows("SELECT * FROM event ORDER BY t_ms, rowid")
    # The end of everything known: tests, the run, events, the last sample.
    moments = [0, row["ended_ms"], *(event["t_ms"] for event in events)]
    moments += [test[key] for test in run.tests for key in ["started_ms", "ended_ms"]]
    moments += [p.t_ms + p.interval_ms for s in run.sources if s["measure"] not in COUNTERS for p in s["points"][-1:]]
    same_fields("run: head", {"duration_s": max(t for t in moments if t is not None) / 1e3, **picked(
        row, "id", "solution", "solution_text", "tool_version", "world", "world_detail", "seed", "ending")}, report["run"])
    started = datetime.datetime.fromtimestamp(row["started_unix_ms"] // 1000, datetime.timezone.utc)
    same("run: started", started.strftime("%Y-%m-%dT%H:%M:%SZ"), report["run"]["started"])
    same("hosts: rows", [picked(host, "name", "description") for host in run.table("host")], report["hosts"])
    seals.check(run, report)
    checks.check(run, report)
    same_fields("run: form", {"format": "proofload-report", "version": 1}, report)
    same("events: rows", len(events), len(report["events"]))
    for ours, theirs in zip(events, report["events"]):
        same_fields("events: row", {"t_s": ours["t_ms"] / 1e3, **picked(ours, "severity", "test", "host", "text")}, theirs)
    environment = run.table("environment")
    same("environment: rows", len(environment), len(report["environment"]))
    for ours, theirs in zip(environment, report["environment"]):
        same_fields("environment: row", picked(ours, "host", "area", "name", "value", "severity", "note"), theirs)
    instances = {(row["host"], row["instance"]): row for row in report["instances"]}
    same("instances: rows", sorted((i["host"], i["name"]) for i in run.instances), sorted(instances))
    for ours in run.instances:
        if told := instances.get((ours["host"], ours["name"])):
            same_fields("instances: row",
                        picked(ours, "log_path", "log_file_bytes", "cache_min_bytes", "cache_max_bytes"), told)
    databases = {(row["host"], row["instance"], row["database"]): row for row in report["databases"]}
    same("databases: rows", sorted((d["host"], d["instance"], d["name"]) for d in run.databases), sorted(databases))
    for ours in run.databases:
        key = (ours["host"], ours["instance"], ours["name"])
        sizes = run.rows("SELECT * FROM database_size WHERE (host, instance, database) = (?, ?, ?) ORDER BY test", *key)
        last = sizes[-1] if sizes else {"bytes_before": None, "bytes_after": None}
        after = last["bytes_before"] if last["bytes_after"] is None else last["bytes_after"]
        if told := databases.get(key):
            same_fields("databases: row", {
                "path": ours["path"], "page_bytes": ours["page_bytes"],
                "bytes_before": sizes[0]["bytes_before"] if sizes else None, "bytes_after": after}, told)


def verdicts(run, report):
    """Each as recorded, and each outcome as it follows from its figure and limit."""
    counts = {"pass": 0, "fail": 0}
    groups = [(test["ordinal"], test["verdicts"]) for test in report["tests"]] + [(None, report["run_verdicts"])]
    for ordinal, told in groups:
        stored = run.rows("SELECT * FROM verdict WHERE test IS ? ORDER BY rowid", ordinal)
        same(f"verdicts: test {ordinal} rows", len(stored), len(told))
        for ours, theirs in zip(stored, told):
            same_fields(f"verdicts: test {ordinal} {ours['rule']}", {
                "limit": ours["threshold"], **place(ours),
                **picked(ours, "rule", "text", "measured", "comparison", "unit", "outcome")}, theirs)
            measured, limit, outcome = ours["measured"], ours["threshold"], ours["outcome"]
            if outcome in counts and measured is not None and limit is not None:
                holds = {"at_most": measured <= limit, "below": measured < limit, "at_least": measured >= limit}
                same(f"verdicts: {ours['rule']}", "pass" if holds[ours["comparison"]] else "fail", theirs["outcome"])
            if outcome in counts:
                counts[outcome] += 1
        if ordinal is not None:
            outcomes = [row["outcome"] for row in stored]
            worst = next((outcome for outcome in ["fail", "unproved", "pass", "info"] if outcome in outcomes), None)
            same(f"verdicts: test {ordinal}", worst, next(t for t in report["tests"] if t["ordinal"] == ordinal)["outcome"])
    same_fields("verdicts: all", {"failed": counts["fail"], "passed": counts["pass"]}, report["verdict"])
    ended = run.run["ending"] == "completed" and all(test["ended_ms"] is not None for test in run.tests)
    unproved = run.rows("SELECT count(*) AS n FROM verdict WHERE outcome = 'unproved'")[0]["n"]
    complete = ended and counts["pass"] > 0 and not unproved
    conditions.check(run, report)
    grade, outcome = conditions.grade(complete, counts["fail"] > 0, report)
    same("verdicts: grade", grade, report["verdict"]["grade"])
    same("verdicts: outcome", outcome, report["verdict"]["outcome"])


def planned(window, report, name):
    test, load = window.test, report["throughput"]
    target, per_mailbox = test["target_iops"], test.get("iops_per_mailbox") or None
    achieved = load and load["transactional_iops"]

    def of(amount, by):
        return amount / by if amount is not None and by else None

    planned_s = of(test["window_planned_ms"], 1e3)
    rows = [
        ("Measured window", planned_s, window.seconds if test["window_start_ms"] is not None else None),
        ("Transactional I/O", target, achieved),
        ("Mailboxes that this I/O carries", of(target, per_mailbox), of(achieved, per_mailbox)),
        ("I/O per mailbox, for the planned mailboxes", None if target is None else per_mailbox,
         of(achieved, of(target, per_mailbox))),
        ("Batches", test["target_batches_per_s"], load and load["batches_per_s"]),
    ]
    rows = [row for row in rows if row[1] is not None]
    same(f"parameters: {name}", json.loads(test["parameters"]), report["parameters"])
    same(f"planned: {name} rows", [row[0] for row in rows], [row["name"] for row in report["planned"]])
    for (what, wish, got), row in zip(rows, report["planned"]):
        same_fields(f"planned: {name} {what}", {"planned": wish, "achieved": got}, row)
    steps = window.run.of_test("tuning_step", test["ordinal"])
    # A tuning test works for its own target, else for the first that a test has.
    goal = next((t for t in [target, *(other["target_iops"] for other in window.run.tests)] if t), None)
    same(f"tuning: {name} steps", len(steps), len(report["tuning"]))
    for ours, theirs in zip(steps, report["tuning"]):
        same_fields(f"tuning: {name} {ours['ordinal']}", {"of_target": of(ours["iops"], goal), **picked(
            ours, "ordinal", "load", "iops", "read_latency_ms", "log_write_latency_ms", "outcome", "note")}, theirs)
    held = max((step["iops"] for step in steps if step["outcome"] == "pass"), default=None)
    same_fields(f"headroom: {name}", {
        "target_iops": goal, "held_iops": held,
        "broken_iops": min((step["iops"] for step in steps if step["outcome"] == "fail"), default=None),
        "beyond_target": held / goal - 1 if held and goal else None} if steps else None, report["headroom"])


def statistics(window, report, name):
    run, ordinal = window.run, window.test["ordinal"]

    def both(table, told):
        stored = run.of_test(table, ordinal)
        same(f"{table}: {name} rows", len(stored), len(told))
        return zip(stored, told)

    def moved(row):
        """How much was read, of how much was there where that is known (older files do not say), and how fast."""
        seconds, there = row["elapsed_ms"] / 1e3, row.get("bytes_expected")
        return {"bytes": row["bytes"], "bytes_expected": there, "read_share": row["bytes"] / there if there else None,
                "elapsed_s": seconds, "mib_per_s": row["bytes"] / MIB / seconds if seconds else None}

    for ours, theirs in both("database_size", report["sizes"]):
        same_fields(f"sizes: {name}", {**place(ours), **picked(ours, "bytes_before", "bytes_after")}, theirs)
    for ours, theirs in both("checksum", report["checksums"]):
        same_fields(f"checksum: {name}", {**place(ours), **moved(ours), **picked(
            ours, "files", "pages", "uninitialised_pages", "bad_pages", "correctable_pages", "wrong_number_pages")}, theirs)
    for ours, theirs in both("backup", report["backups"]):
        same_fields(f"backup: {name}", {**place(ours), **moved(ours), "destination": ours["destination"]}, theirs)
    for ours, theirs in both("recovery", report["recoveries"]):
        logs, seconds = ours["logs"], ours["elapsed_ms"] / 1e3

        def work(row):
            branches = row.get("branches")
            return None if branches is None else {**picked(
                row, "segments_corrected", "segments_given_up", "segments_unexplained", "page_changes",
                "pages_repaired", "transactions_undone"), "branches": json.loads(branches)}

        def per_log(measure):
            if not logs or window.test["kind"] == "restore":
                return None
            return window.total("count", measure, host=ours["host"], instance=ours["instance"]) / logs

        same_fields(f"recovery: {name}", {
            **place(ours), "logs": logs, "elapsed_s": seconds, "s_per_log": seconds / logs if logs else None,
            "reads_per_log": per_log("transactional_read"), "writes_per_log": per_log("transactional_write"),
            "log_reads_per_log": per_log("log_read"), "work": work(ours)}, theirs)
    # In the order in which a request meets them.
    kinds = ["processor", "link", "controller", "read_cache", "store", "pool", "volume", "drive", "device"]
    parts = sorted(run.of_test("storage_part", ordinal), key=lambda part: kinds.index(part["kind"]))
    same(f"storage_part: {name} rows", len(parts), len(report["storage_parts"]))
    for ours, theirs in zip(parts, report["storage_parts"]):
        # Older files have 0 where a latency was not measured.
        wanted = {key: ours[key] or None if key.endswith("latency_ms") else ours[key] for key in theirs}
        same_fields(f"storage_part: {name} {ours['name']}", wanted, theirs)
