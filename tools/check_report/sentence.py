"""The sentence of the grade and its reasons, word by word (docs/verdict.md), and the notes of the conditions."""

import json
import math

from compare import same
from conditions import Facts, is_excused
from page import num, significant

# Conditions whose note tells a number of things, not the share that they are.
COUNTED = ["rules_percent", "load_tests", "target_set_percent", "tests", "verified_percent", "logs_verified_percent",
           "hosts_percent", "unbuffered_percent", "on_storage_percent", "evidence_apart_percent", "kernel_log_percent"]

# Kinds of tests that compare what is on a page with what was written there.
COMPARE = {"database_checksum", "backup_to_disk", "restore"}


def unseen(kinds):
    """What the checks among these kinds of tests cannot see."""
    if kinds & (COMPARE | {"backup"}):
        yield "No check sees an older version of a page that did not change since its flush map was begun anew."
        if not kinds & COMPARE:
            yield "A backup does not see sectors of a page that changed places with equal parities."
        else:
            yield "No check sees sectors that changed places in bytes of a page that hold no entry."


def causes(report):
    """The paragraphs of the causes: a test that has none failed nothing, a cause proves and advises something."""
    told = []
    for test in report["tests"]:
        broken = any(v["outcome"] in ("fail", "unproved") or is_excused(v) for v in test["verdicts"])
        for n, cause in enumerate(test["causes"]):
            same(f"sentence: {test['name']} has a cause", True, broken and test["throughput"] is not None)
            for key in ["name", "what", "since", "remedy"]:
                same(f"sentence: {key} of a cause", True, bool(cause[key]))
            same("sentence: proof of a cause", cause["name"] != "cannot_tell", bool(cause["proofs"]))
            rows = "; ".join(f"{proof['rows']} {proof['figure']}" for proof in cause["proofs"])
            told.append(f"{test['name']}: {'or: ' if n else ''}{cause['what']} ({cause['name']}, {cause['since']})."
                        f"{f' Rows: {rows}.' if rows else ''} Try: {cause['remedy']}.")
            for proof in cause["proofs"]:
                mean = proof["figure"].startswith("mean ") and proof["figure"].split(",")[0].split(" ")[1]
                row = next((m for m in test["measures"] if m["measure"] == proof["rows"]), None)
                if mean and row:
                    same(f"sentence: {proof['rows']} of a cause", significant(row["figures"]["latency_ms_mean"]), mean)
    return told


def bare(value):
    text = significant(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def counted(count, thing):
    return f"{num(count, 0)} {thing}{'' if count == 1 else 's'}"


def bounds(least, most):
    if least is not None and most is not None:
        return f"{bare(least)} to {bare(most)}"
    if least is not None:
        return f"at least {bare(least)}"
    return "none" if most is None else f"at most {bare(most)}"


def per_server(iops):
    return f"{num(iops, 2)} transactional I/O per second and server"


def qualified(facts, conditions):
    claim = facts.claim
    if claim and claim["mailboxes"] is not None and claim["iops_per_server"] is not None:
        each = claim.get("iops_per_mailbox")
        each = "" if each is None else f", {significant(each)} per mailbox"
        carries = f"carries {num(claim['mailboxes'], 0)} mailboxes ({per_server(claim['iops_per_server'])}{each})"
    else:
        servers = max(1, len(json.loads(claim["hosts"])) if claim else 1)
        carries = f"carries the stated load of {per_server(min(facts.targets.values(), default=0) / servers)}"
    case = f" with {claim['failure']} lost" if claim and claim["failure"] else ""
    begins = "By its own rules, the" if any(c["weaker"] for c in conditions) else "The"
    size = next((c["measured"] for c in conditions if c["name"] == "database_size_percent"), None)
    size = "" if size is None else f", with databases of {bare(size)} % of the planned size"
    return f"{begins} storage {carries}{case}{size}."


def excused(report):
    """Limits that a scheduled fault broke, with their tests; the one that was missed furthest first."""
    rows = [(t["name"], v) for t in report["tests"] for v in t["verdicts"] if is_excused(v)]
    return sorted(rows, key=lambda row: -abs(math.log(row[1]["measured"] / row[1]["limit"])))


def outside(broken):
    if not broken:
        return ""
    worst = broken[0][1]
    what = {"read_latency_avg": "mean read", "read_latency_max": "read sample", "log_write_latency_avg": "mean log write",
            "log_write_latency_max": "log write sample"}.get(worst["rule"], "rate")
    return f" outside the scheduled fault; during it {counted(len(broken), 'limit')} broke, " \
        f"worst {what} {significant(worst['measured'])} {worst['unit']}"


def tested(facts):
    """What was under test, as far as the sentence of a qualified run does not say it."""
    claim = facts.claim
    if not claim or not claim.get("engine"):
        return []
    copies = claim["copies"]
    copies = "" if copies is None else "1 copy of each database; " if copies == 1 else \
        f"{copies} copies of each database, the active one included; "
    needed = claim.get("profile_iops_per_mailbox")
    needed = "" if needed is None else \
        f"; the profile needs {significant(needed)} transactional I/O per second and mailbox"
    hosts = ", ".join(json.loads(claim["hosts"]))
    return [f"Under test: {hosts} on {claim['storage']}; {copies}{claim['engine']}{needed}."]


def held(facts, conditions, broken):
    if not facts.loads:
        return "No limit was broken, but no load test took place: nothing is known of the storage under load."
    iops = min(test["throughput"]["transactional_iops"] for test in facts.loads)
    met = {c["name"] for c in conditions if c["met"]}
    target = "no target was set" if "target_set_percent" not in met else \
        "the target was reached, but this is no qualification" if "target_met_percent" in met else "the target was not reached"
    estimate = "" if "window_percent" in met else " in an estimate of the full window"
    figure = significant(iops) if iops < 100 else num(iops, 0)
    return f"Latency limits held at {figure} transactional I/O per second{estimate}{outside(broken)}; {target}."


def place(verdict):
    return "/".join(verdict[key] for key in ["host", "instance", "database"] if verdict[key])


def judged(report):
    """Titles of the tests, and of the run, with their verdicts."""
    return [*((t["name"], t["verdicts"]) for t in report["tests"]), ("The run", report["run_verdicts"])]


def failures(report):
    """How the sentence of each broken limit begins: the test, the rule, the worst figure, the limit and the place."""
    for name, verdicts in judged(report):
        failed = [v for v in verdicts if v["outcome"] == "fail"]
        for rule in dict.fromkeys(v["rule"] for v in failed):
            def distance(v):
                known = v["measured"] is not None and v["limit"] is not None
                return abs(v["measured"] - v["limit"]) if known else float("inf")
            # Of equal ones the last.
            worst = max(reversed([v for v in failed if v["rule"] == rule]), key=distance)
            unit = " per second" if worst["unit"] == "1/s" else f" {worst['unit']}"
            figure = "nothing was measured" if worst["measured"] is None else f"{significant(worst['measured'])}{unit}"
            if worst["measured"] is not None and worst["limit"] is not None:
                figure += f" against a limit of {significant(worst['limit'])}"
            yield f"{name}: “{worst['text']}” does not hold: {figure} on {place(worst)}"


def check(run, report):
    facts, verdict = Facts(run, report), report["verdict"]
    grade, conditions, reasons = verdict["grade"], verdict["conditions"], list(verdict["reasons"])
    outcomes = [v["outcome"] for _, verdicts in judged(report) for v in verdicts]
    passed, unproved = outcomes.count("pass"), outcomes.count("unproved")
    broken, spared = list(failures(report)), excused(report)
    limits = passed + unproved
    seen = f"until then {num(passed, 0)} of {counted(limits, 'limit')} {'was' if limits == 1 else 'were'} kept" \
        if passed else "no limit was judged"
    said = {"qualified": lambda: qualified(facts, conditions), "held": lambda: held(facts, conditions, spared),
            "failed": lambda: broken[0] if broken else "",
            "incomplete": lambda: f"The run is not complete: nothing is proved; {seen}."}[grade]()
    said = said if run.run["world"] == "real" or grade == "incomplete" else f"Predicted, not tested: {said}"
    # How long a limit held is told behind the rest.
    headline = verdict["headline"]
    same("sentence: headline", said, headline[:len(said)] if grade == "failed" else headline)
    for n, begins in enumerate(broken):
        same("sentence: broken", begins, reasons[n][:len(begins)] if n < len(reasons) else None)
    # Those of the run come first.
    of_all = sorted(judged(report), key=lambda rows: rows[1] is not report["run_verdicts"])
    not_proved = [f"{name}: “{v['text']}” is not proved on {place(v)}." for name, rows in of_all for v in rows
                  if v["outcome"] == "unproved"]
    same("sentence: not proved", not_proved, [text for text in reasons if "” is not proved on " in text])
    doubts = len([e for e in run.table("environment") if e["severity"] != "info"])
    doubt = [f"{counted(doubts, 'warning')} about the environment: see “Environment”."] if doubts else []
    same("sentence: doubts", doubt, [text for text in reasons if "about the environment" in text])
    if grade in ("held", "qualified"):
        tests = counted(len(report["tests"]), "test")
        same("sentence: reasons", [
            *(f"{name}: “{v['text']}” on {place(v)}." for name, v in spared),
            *(tested(facts) if grade == "qualified" else []),
            f"{tests} carried out, {num(passed, 0)} of {counted(passed + len(spared), 'limit')} kept.",
            *(f"Missing: {c['note']}. Remedy: {c['remedy']}." for c in conditions if not c["met"]),
            *(f"Own rule: {c['text']}: {bounds(c['least'], c['most'])} {c['unit']} (published: "
              f"{bounds(c['published_least'], c['published_most'])})." for c in conditions if c["met"] and c["weaker"]),
            *doubt], reasons)
    done = {test["kind"] for test in run.tests if test["ended_ms"] is not None}
    same("sentence: unseen", list(unseen(done)), verdict["unseen"])
    same("sentence: causes", causes(report), verdict["causes"])
    for condition in conditions:
        note(condition)


def note(condition):
    """A note tells the figure of its condition; a remedy, a text and a source are there."""
    name, measured = condition["name"], condition["measured"]
    for key in ["text", "unit", "source", "remedy", "note"]:
        # What is missing is named, and nothing may be.
        same(f"notes: {name} {key}", True, bool(condition[key]) or key == "note" and condition["met"])
    if measured is not None and name not in COUNTED:
        same(f"notes: {name}", True, bare(measured) in condition["note"].replace(" %", "").split(" ")
             or f"{num(measured, 0)}" in condition["note"].split(" "))
