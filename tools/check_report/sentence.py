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
    """What is known of the causes of broken limits of latency."""
    kinds = {"drive": "disks", "controller": "controllers", "link": "links", "processor": "processors of a host",
             "read_cache": "read caches", "store": "stores", "pool": "pools"}
    told = []
    for test in (t for t in report["tests"] if t["throughput"] is not None):
        failed = [v["rule"] for v in test["verdicts"] if v["outcome"] == "fail"]
        reads = any(rule.startswith("read_latency") for rule in failed)
        logs = any(rule.startswith("log_write_latency") for rule in failed)
        if reads:
            told += even(test, "reads", "database", "reads", test["databases"])
        if logs:
            told += even(test, "log writes", "log", "log_writes", test["instances"])
        if not reads and not logs:
            continue
        busy = {name: max(part["busy_share"] for part in test["storage_parts"] if part["kind"] == kind)
                for kind, name in kinds.items() if any(part["kind"] == kind for part in test["storage_parts"])}
        if busy:
            order = sorted(busy.items(), key=lambda item: -item[1])
            waits = f"requests waited for the {order[0][0]}" if order[0][1] >= 0.8 else \
                "no part was busy most of the time, so requests were slow without waiting for each other"
            shares = ", ".join(f"{name} {num(share * 100, 0)} %" for name, share in order)
            told.append(f"{test['name']}: {waits}. Busy time of the busiest part of each kind: {shares}.")
        generator = test["generator"]
        if generator:
            share = generator["busiest_thread_busy"]
            share = generator["program_busy"] if share is None else share
            told.append(f"{test['name']}: the load generator itself had no room on {generator['host']}: the storage may "
                        "be faster than measured." if generator["was_limit"] else
                        f"{test['name']}: the load generator had room: its busiest thread worked {num(share * 100, 0)} % "
                        f"of the time on {generator['host']}.")
    if told and not any(test["tuning"] for test in report["tests"]):
        told.append("A test of the kind tune finds the load that the storage carries within the limits.")
    return told


def even(test, operations, thing, key, rows):
    """Whether all databases or logs were slow, or one of them."""
    found = [(row[key]["latency_ms_mean"], place(row)) for row in rows
             if row[key] and row[key]["latency_ms_mean"] is not None]
    found.sort(key=lambda pair: pair[0])
    if len(found) < 2:
        return []
    (least, _), (most, slowest), middle = found[0], found[-1], found[len(found) // 2][0]
    every = counted(len(found), thing)
    if most >= 1.5 * middle:
        return [f"{test['name']}: {operations} took {significant(most)} ms on {slowest}, and {significant(middle)} ms on "
                f"the middle one of {every}: look at what {slowest} alone lies on."]
    return [f"{test['name']}: {operations} were slow everywhere: {significant(least)} to {significant(most)} ms on {every}."]


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
    return [f"Under test: {', '.join(json.loads(claim['hosts']))} on {claim['storage']}; {copies}{claim['engine']}."]


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
