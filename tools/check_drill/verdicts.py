"""Whether the report of a drill says what its journals show (docs/drills.md, *What is judged*; docs/verdict.md)."""

RULES = {"lost_commits": ("drill_lost_commits",), "lost_logs": ("drill_lost_logs",),
         "two_active": ("drill_two_active",), "late": ("drill_two_active",), "copies_equal": ("drill_copies_equal",)}
# Without a whole journal these say nothing: what they miss may be missing from the journals only.
COUNTED = ("drill_copies_compared", "drill_dismounted")
JUDGED = ("drill_lost_commits", "drill_lost_logs", "drill_two_active", "drill_copies_equal", "drill_errors", *COUNTED)


class Report:
    """The verdicts of the drill in report.json."""

    def __init__(self, report):
        self.report = report
        self.test = next(test for test in report["tests"] if test["kind"] == "drill")
        self.verdicts = self.test["verdicts"]
        names = (verdict["database"] for verdict in self.verdicts if verdict["database"])
        self.databases = list(dict.fromkeys(names))

    def outcome(self, rule, database):
        found = [verdict for verdict in self.verdicts if (verdict["rule"], verdict["database"]) == (rule, database)]
        return found[0]["outcome"] if len(found) == 1 else None


def expected_journals(report, journals):
    """Each journal that is not whole is named; each whole one passes."""
    for journal in journals:
        found = [v for v in report.verdicts if (v["rule"], v["host"]) == ("drill_journal", journal.author)]
        expected = "unproved" if journal.fault else "pass"
        if [verdict["outcome"] for verdict in found] != [expected]:
            yield f"drill_journal of {journal.author} is not {expected}: {journal.fault or 'it is whole'}"


def expected_failures(report, events, journals):
    """Each scheduled failure began, and ended, in the journal of its host."""
    said = [v for v in report.verdicts if v["rule"] == "drill_failure_performed"]
    if len(said) != len(events):
        yield f"{len(events)} failures were scheduled, and {len(said)} are judged"
        return
    by_author = {journal.author: journal for journal in journals}
    for number, (event, verdict) in enumerate(zip(events, said)):
        if "host" not in event:
            continue
        journal = by_author.get(event["host"])
        kinds = ["fails", "is_over"] if "back_after_s" in event else ["fails"]
        done = journal and all(any(entry.what == number for entry in journal.of(kind)) for kind in kinds)
        if verdict["outcome"] != ("pass" if done else "unproved"):
            yield f"failure {number} is judged {verdict['outcome']}; the journal of its host says otherwise"


def is_proved(report):
    conditions = [v for v in report.verdicts if v["rule"] in ("drill_journal", "drill_failure_performed")]
    return all(verdict["outcome"] == "pass" for verdict in conditions)


def expected_rules(report, databases, broken, copies, dial):
    """Each rule of each database fails if its promise is broken, and passes only if everything is proved."""
    proved = is_proved(report)
    for number, name in enumerate(report.databases):
        database = databases[number]
        fails = {rule: False for rule in JUDGED if rule != "drill_lost_logs" or dial != "lossless"}
        for breach in broken:
            if breach.database == number:
                fails.update({rule: True for rule in RULES[breach.promise]})
        fails["drill_errors"] = bool(database.errors or database.stopped)
        read = sum(said["digests"] is not None for _, said in database.compared)
        fails["drill_copies_compared"] = read < copies[name]
        del fails["drill_dismounted"]
        for rule, is_broken in fails.items():
            expected = "fail" if is_broken else "pass"
            if not proved and (rule in COUNTED or not is_broken):
                expected = "unproved"
            found = report.outcome(rule, name)
            if found != expected:
                yield f"{rule} of {name} is {found}; by the journals it is {expected}"
        yield from expected_service(report, database, name, proved)


def expected_service(report, database, name, proved):
    """No host acknowledges for a database without service, or the arbiter says that it stays dismounted."""
    found = report.outcome("drill_dismounted", name)
    if not proved:
        if found in ("pass", "fail"):
            yield f"drill_dismounted of {name} is {found}, and the journals do not prove it"
        return
    if found == "pass" and not database.acknowledged:
        yield f"drill_dismounted of {name} passes although no host has acknowledged anything"
    last = next((e.what["event"] for e in reversed(database.decided)
                 if isinstance(e.what["event"], dict) and {"Activated", "Dismounted"} & set(e.what["event"])), {})
    if found == "pass" and "Dismounted" in last:
        yield f"drill_dismounted of {name} passes although the arbiter has dismounted it"
    is_served = database.acknowledged and "Activated" in last and any(
        entry.what["epoch"] == last["Activated"]["epoch"] for entry in database.acknowledged)
    if found == "fail" and is_served and last["Activated"]["epoch"] > 1:
        yield f"drill_dismounted of {name} fails although the last copy that was activated serves users"


def expected_grade(report):
    """The grade follows from the outcomes."""
    outcomes = [v["outcome"] for test in report.report["tests"] for v in test["verdicts"]]
    outcomes += [v["outcome"] for v in report.report["run_verdicts"]]
    grade = report.report["verdict"]["grade"]
    if "fail" in outcomes:
        expected = ["failed"]
    elif "unproved" in outcomes or report.report["run"]["ending"] != "completed":
        expected = ["incomplete"]
    else:
        expected = ["held", "qualified"]
    if grade not in expected:
        yield f"the grade is {grade}; by the verdicts it is {' or '.join(expected)}"
