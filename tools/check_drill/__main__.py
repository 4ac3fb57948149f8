"""Judges a drill on real hosts by what its hosts and its arbiter wrote down, without code of Proofload.

    python3 tools/check_drill RUN [--planted]

RUN is the folder of a run: report.json, drill.jsonl of the arbiter, hosts/HOST/drill.jsonl. It was written from docs/drills.md
and docs/copies.md. It knows what users were promised, not how the copies keep it: no acknowledged commit is lost, one host
acknowledges in each epoch, no host acknowledges once a later epoch has begun, copies are equal in the end. And it says
whether the verdicts in the report are true. --planted changes the journals and the report in every way that it knows, and says
which change it does not notice.

Exit status: 0 every promise is kept and every verdict is true, 1 not so, 2 there is no such drill to judge.
"""

import argparse
import json
import pathlib
import sys
import tomllib

import planted
import promises
import verdicts
from journals import Journal


class Drill:
    """A drill as it was found."""

    def __init__(self, report, hosts, arbiter):
        self.report, self.hosts, self.arbiter = report, hosts, arbiter

    @staticmethod
    def read(folder):
        report = json.loads((folder / "report.json").read_text())
        run = report["run"]["id"]
        names = [host["name"] for host in report["hosts"]]
        hosts = [Journal.read(name, folder / "hosts" / name / "drill.jsonl", run) for name in names]
        return Drill(report, hosts, Journal.read("arbiter", folder / "drill.jsonl", run))

    def findings(self):
        """Promises that are broken, and verdicts that are not true."""
        report = verdicts.Report(self.report)
        solution = tomllib.loads(self.report["run"]["solution_text"])
        drill = next(test["drill"] for test in solution["test"] if test["kind"] == "drill")
        dial = drill.get("mount_dial", "lossless")
        numbers = promises.host_numbers(self.hosts)
        databases = [promises.Database(number, self.hosts, self.arbiter) for number in range(len(report.databases))]
        broken = [breach for database in databases for breach in promises.breaches(database, dial, numbers)]
        # A lagged copy lags on purpose: it is not compared.
        lagged = solution.get("copies", {}).get("lagged", 0)
        copies = {name: sum(database["database"] == name for database in self.report["databases"]) - lagged
                  for name in report.databases}
        untrue = [*verdicts.expected_journals(report, [*self.hosts, self.arbiter]),
                  *verdicts.expected_failures(report, drill["event"], self.hosts),
                  *verdicts.expected_rules(report, databases, broken, copies, dial),
                  *verdicts.expected_grade(report)]
        said = [f"{breach.promise} of {report.databases[breach.database]}: {breach.text}" for breach in broken]
        return said, untrue


def plant(drill, folder):
    """Whether every planted mistake is noticed."""
    status = 0
    for name, where, noticed in planted.plant(drill, folder):
        if not where:
            print(f"{name}: this drill has no place for it")
        elif noticed:
            print(f"{name} ({where}): {noticed[0]}")
        else:
            print(f"{name} ({where}): NOT NOTICED")
            status = 1
    return status


def main():
    parser = argparse.ArgumentParser(prog="check_drill", description=__doc__.split("\n")[0])
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--planted", action="store_true")
    arguments = parser.parse_args()
    try:
        drill = Drill.read(arguments.run)
        broken, untrue = drill.findings()
    except (OSError, KeyError, ValueError, StopIteration) as error:
        print(f"there is no drill to judge in {arguments.run}: {error!r}", file=sys.stderr)
        return 2
    if arguments.planted and not (broken or untrue):
        return plant(drill, arguments.run)
    for text in broken:
        print(f"a promise is broken: {text}")
    for text in untrue:
        print(f"a verdict is not true: {text}")
    return 1 if broken or untrue else 0


if __name__ == "__main__":
    sys.exit(main())
