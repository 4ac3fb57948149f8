"""Compares junit.xml with report.json: a suite of conditions, one per test and one for the run, a case per judgement."""

from xml.etree import ElementTree

from compare import same
from conditions import is_excused


def check(report, text):
    root = ElementTree.fromstring(text)
    suites = root.findall("testsuite")
    same("junit: suites", len(report["tests"]) + 2, len(suites))
    qualification, suites = suites[0], suites[1:]
    conditions = report["verdict"]["conditions"]
    same("junit: grade", {"grade": report["verdict"]["grade"], "sentence": report["verdict"]["headline"]},
         {row.get("name"): row.get("value") for row in qualification.findall("properties/property")})
    cases = qualification.findall("testcase")
    same("junit: conditions", [c["name"] for c in conditions], [case.get("name") for case in cases])
    same("junit: not met", [c["name"] for c in conditions if not c["met"]],
         [case.get("name") for case in cases if case.find("skipped") is not None])
    groups = [t["verdicts"] for t in report["tests"]] + [report["run_verdicts"]]
    unfinished = int(report["verdict"]["grade"] == "incomplete")
    for suite, verdicts in zip(suites, groups):
        judged = [v for v in verdicts if v["outcome"] != "info" or is_excused(v)]
        extra = unfinished if suite is suites[-1] else 0
        cases = suite.findall("testcase")
        same("junit: cases", len(judged) + extra, len(cases))
        same("junit: rules", [v["rule"] for v in judged], [case.get("name") for case in cases][: len(judged)])
        for outcomes, tag in [(["fail"], "failure"), (["unproved", "info"], "skipped")]:
            marked = [case.get("name") for case in cases if case.find(tag) is not None]
            same(f"junit: {tag}", [v["rule"] for v in judged if v["outcome"] in outcomes], marked)
    for suite in [qualification, *suites]:
        for kind, tag in [("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error"),
                          ("skipped", "testcase/skipped")]:
            same(f"junit: {kind}", len(suite.findall(tag)), int(suite.get(kind)))
    for kind in ["tests", "failures", "errors", "skipped"]:
        wanted = sum(int(suite.get(kind)) for suite in [qualification, *suites])
        same(f"junit: all {kind}", wanted, int(root.get(kind)))
    same("junit: errors", unfinished, int(root.get("errors")))
