#!/usr/bin/env python3
"""Checks report.json, report.html and junit.xml against run.db, without any code of Proofload.

usage: tools/check_report RUN_FOLDER [--every-figure | --planted]

Works out every number of report.json from the rows of run.db, from the definitions in docs/run-db.md and docs/report.md;
then compares the tables of report.html cell by cell, and junit.xml, with the JSON. Prints how much was compared; every
difference is a line, and the exit status is 1 if there was any.

Two ways to ask whether the check itself can fail:
--every-figure  changes one number of each field of report.json in turn; names the fields whose change goes unnoticed.
--planted       plants mistakes of many kinds, as a wrong program would make them; names those that go unnoticed.
"""

import copy
import json
import os
import re
import sys

import hosts
import junit
import load
import page
import pictures
import planted
import records
import seals
import sentence
from compare import compared, differences, found, same, same_fields
from figures import WAITING, Window
from rundb import COUNTERS, Run

COLUMNS = {"reads": ["transactional_read"], "writes": ["transactional_write"], "maintenance": ["maintenance_read"],
           "all_reads": ["transactional_read", "maintenance_read"], "log_writes": ["log_write"],
           "log_reads": ["log_read"], "replication": ["replication_read"]}
PERCENTILES = {"read_percentiles": "transactional_read", "log_write_percentiles": "log_write"}


def check_test(window, report):
    test, name = window.test, f"test {window.test['ordinal']}"
    ended = max(test["started_ms"], window.end if test["ended_ms"] is None else test["ended_ms"])
    same_fields(f"test: {name}", {
        "ordinal": test["ordinal"], "kind": test["kind"], "name": test["name"], "started_s": test["started_ms"] / 1e3,
        "duration_s": (ended - test["started_ms"]) / 1e3, "ended": test["ended_ms"] is not None}, report)
    planned = test["window_planned_ms"]
    same_fields(f"window: {name}", None if test["window_start_ms"] is None else {
        "start_s": window.start / 1e3, "duration_s": window.seconds, "planned_s": None if planned is None else planned / 1e3,
        "sample_s": test["sample_ms"] / 1e3, "samples": len(window.spans), "cut": test["window_end_ms"] is None},
        report["window"])
    check_io(window, report, name)
    sums(report, name)
    load.check(window, report, name)
    pictures.check(window, report, name)
    hosts.check(window, report, name)
    hosts.volumes(window, report, name)
    records.planned(window, report, name)
    records.statistics(window, report, name)


def check_io(window, report, name):
    """Figures and percentiles of each measure: of all hosts, of a host, an instance, a database."""
    counted = {s["measure"] for s in window.sources for p in s["points"] if p.count and window.holds(p)} - COUNTERS
    counted |= {s["measure"].removesuffix(WAITING) for s in window.waits for p in s["points"]
                if window.holds(p) and p.t_ms + p.interval_ms >= window.end}
    same(f"figures: {name} measures", sorted(counted), sorted(row["measure"] for row in report["measures"]))
    scopes = [({}, row) for row in report["measures"]] + [({"host": row["host"]}, row) for row in report["hosts"]]
    for scope, row in scopes:
        what = f"{name} {scope.get('host', '')} {row['measure']}"
        same_fields(f"figures: {what}", window.figures([row["measure"]], **scope), row["figures"])
        same_fields(f"percentiles: {what}", window.percentiles(row["measure"], **scope), row["percentiles"])
        if not scope:
            same(f"held: {what}", window.held_ms(row["measure"]), row["held_ms"])
    if len(window.run.table("host")) > 1:
        each = {(s["host"], s["measure"]) for s in window.sources for p in s["points"] if p.count and window.holds(p)}
        same(f"figures: {name} hosts", sorted(row for row in each if row[1] not in COUNTERS),
             sorted((row["host"], row["measure"]) for row in report["hosts"]))
    for kind, keys in [("instances", ["host", "instance"]), ("databases", ["host", "instance", "database"])]:
        measured = {tuple(s[key] for key in keys) for s in window.sources if s[keys[-1]] is not None
                    and s["measure"] not in COUNTERS and s["points"]}
        same(f"{kind}: {name}", sorted(measured), sorted(tuple(row[key] for key in keys) for row in report[kind]))
        for row in report[kind]:
            scope = {key: row[key] for key in keys}
            what = f"{name} {row['instance']} {row['database']}"
            for column, measures in COLUMNS.items():
                same_fields(f"{kind} figures: {what} {column}", window.figures(measures, **scope), row[column])
            for column, measure in PERCENTILES.items():
                same_fields(f"{kind} percentiles: {what} {column}", window.percentiles(measure, **scope), row[column])
            same(f"{kind} batches: {what}", window.total("count", "batch", **scope), row["batches"])


def sums(report, name):
    """What instances did adds up to what the hosts did; distributions hold what samples count."""
    columns = {"transactional_read": "reads", "transactional_write": "writes", "log_write": "log_writes"}
    for row in report["measures"]:
        column = columns.get(row["measure"])
        parts = [i[column]["count"] for i in report["instances"] if column and i[column]]
        if parts:
            same(f"sums: {name} {row['measure']}", row["figures"]["count"], sum(parts))
        if report["ended"] and row["percentiles"]["count"]:
            same(f"histograms: {name} {row['measure']}", row["figures"]["count"], row["percentiles"]["count"])


class Checker:
    """The windows of a run are worked out once, however many reports are held against them."""

    def __init__(self, run):
        self.run = run
        self.windows = [Window(run, test) for test in run.tests]

    def check(self, report, only=None):
        """All of a report, or only the test at one place and what is said of the whole."""
        if only is None:
            records.run_head(self.run, report)
            same("tests: number", len(self.windows), len(report["tests"]))
        for at, (window, told) in enumerate(zip(self.windows, report["tests"])):
            if only in (None, at):
                check_test(window, told)
        records.verdicts(self.run, report)
        sentence.check(self.run, report)


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


def unnoticed(checker, report):
    """The fields of which a changed number is not found."""
    places = {}
    for path in numbers(report):
        # The last of a field: loops that end too early are found as well.
        places[re.sub(r"\[\d+\]", "[]", "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path))] = path
    missed, already = [], found(lambda: checker.check(report))
    for field, path in places.items():
        changed = at = copy.copy(report)
        for key in path[:-1]:
            at[key] = copy.copy(at[key])
            at = at[key]
        at[path[-1]] = at[path[-1]] * 2 + 1
        if not found(lambda: checker.check(changed, path[1] if path[0] == "tests" else None)) - already:
            missed.append(field)
    print(f"{len(places)} fields changed in turn, {len(missed)} changes unnoticed")
    return missed


def main():
    options = [a for a in sys.argv[1:] if a in ("--every-figure", "--planted")]
    folders = [a for a in sys.argv[1:] if a not in options]
    if len(folders) != 1 or len(options) > 1:
        print(__doc__, file=sys.stderr)
        return 2

    def read(name):
        with open(os.path.join(folders[0], name), encoding="utf-8") as file:
            return file.read()

    checker = Checker(Run(os.path.join(folders[0], "run.db")))
    text, html, xml = (read(name) for name in ["report.json", "report.html", "junit.xml"])
    report = json.loads(text)

    def check(report, html, xml):
        checker.check(report)
        read_page = page.Page(html)
        page.check(report, read_page, same)
        seals.page(report, text, read_page)
        junit.check(report, xml)

    if options:
        missed = unnoticed(checker, report) if options == ["--every-figure"] else \
            planted.unnoticed(checker, check, (report, html, xml))
        print("\n".join(missed))
        return 1 if missed else 0
    check(report, html, xml)
    print("\n".join(differences[:50]))
    print(f"{sum(compared.values())} figures compared, {len(differences)} differ")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
