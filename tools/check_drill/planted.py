"""Mistakes of the protocol and of the judge, as their journals and reports would show them: each must be noticed.

A mistake changes a copy of what was found, and says what it changed; it gives None where the drill has no place for it.
"""

import copy


def entries(drill, kind, database=None):
    found = [entry for journal in drill.hosts for entry in journal.of(kind)]
    return [entry for entry in found if database is None or entry.what["database"] == database]


def after_a_change_of_epoch(drill):
    """A mount of a later epoch, and an acknowledgement of an earlier one of the same database."""
    for mount in entries(drill, "opened"):
        earlier = [entry for entry in entries(drill, "acknowledged", mount.what["database"])
                   if entry.what["epoch"] < mount.what["epoch"]]
        if earlier:
            return mount, earlier[-1]
    return None


def journal_of(drill, author):
    return next(journal for journal in drill.hosts if journal.author == author)


def verdict(drill, rule, outcome):
    test = next(test for test in drill.report["tests"] if test["kind"] == "drill")
    return next((v for v in test["verdicts"] if v["rule"] == rule and v["outcome"] == outcome), None)


def is_lossless(drill):
    return 'mount_dial = "lossless"' in drill.report["run"]["solution_text"]


def acknowledged_before_partner(drill):
    """A copy acknowledges what only it holds: the next active copy lacks it."""
    if is_lossless(drill) and (found := after_a_change_of_epoch(drill)):
        mount, acknowledged = found
        folder, version = next(iter(acknowledged.what["folders"].items()))
        mount.what["found"][folder] = version - 1
        return str(mount)


def mounted_without_proof(drill):
    """A copy is mounted that has been behind for long: it lacks all that the earlier epoch acknowledged."""
    if is_lossless(drill) and (found := after_a_change_of_epoch(drill)):
        mount, _ = found
        mount.what["found"] = dict.fromkeys(mount.what["found"], 0)
        return str(mount)


def lease_not_waited_for(drill):
    """The old holder acknowledges once more when the next copy is mounted."""
    if found := after_a_change_of_epoch(drill):
        mount, acknowledged = found
        late = copy.deepcopy(acknowledged)
        late.earliest = late.latest = mount.latest + 1_000_000
        journal_of(drill, late.author).entries.append(late)
        return str(mount)


def epoch_given_out_twice(drill):
    """Two hosts work in one epoch."""
    acknowledged = entries(drill, "acknowledged")
    if acknowledged and len(drill.hosts) > 1:
        twice = copy.deepcopy(acknowledged[0])
        twice.author = next(journal.author for journal in drill.hosts if journal.author != twice.author)
        journal_of(drill, twice.author).entries.append(twice)
        return str(twice)


def stale_epoch_accepted(drill):
    """A copy takes users in an epoch that it was not activated in."""
    worked = {(entry.what["database"], entry.what["epoch"]) for entry in entries(drill, "acknowledged")}
    for mount in entries(drill, "opened"):
        if (mount.what["database"], mount.what["epoch"]) in worked:
            mount.what["epoch"] -= 1
            return str(mount)


def other_host_activated(drill):
    """The arbiter has chosen another host than the one that works."""
    for entry in drill.arbiter.of("decided"):
        event = entry.what["event"]
        if isinstance(event, dict) and "Activated" in event and len(drill.hosts) > 1:
            event["Activated"]["holder"] = (event["Activated"]["holder"] + 1) % len(drill.hosts)
            return str(entry)


def divergence_unnoticed(drill):
    """A copy keeps a page of a history that is lost."""
    for entry in entries(drill, "compared"):
        for said in entry.what:
            for place in said["digests"] or {}:
                said["digests"][place] ^= 1
                return str(entry)


def seed_misses_pages(drill):
    """A copy has compared fewer pages than the others."""
    for entry in entries(drill, "compared"):
        for said in entry.what:
            if said["digests"]:
                said["digests"].popitem()
                return str(entry)


def loss_of_a_lossless_dial(drill):
    """The arbiter activates a copy that lacks log, more than any dial allows."""
    for entry in drill.arbiter.of("decided"):
        event = entry.what["event"]
        if isinstance(event, dict) and "Activated" in event:
            event["Activated"]["loss"] = {"missing_generations": 20, "bound_generations": 22}
            return str(entry)


def false_alarm(drill):
    """The judge says that a commit is lost, and none is."""
    if found := verdict(drill, "drill_lost_commits", "pass"):
        found["outcome"] = "fail"
        drill.report["verdict"]["grade"] = "failed"
        return found["text"]


def damaged_journal_passes(drill):
    """A journal breaks off, and the judge takes it as a whole one."""
    journal = drill.hosts[0]
    if not journal.fault:
        journal.fault = "it is not ended"
        return journal.author


def failure_not_performed_passes(drill):
    """A scheduled failure has not begun, and the judge lets the drill pass."""
    for journal in drill.hosts:
        for entry in journal.of("fails"):
            journal.entries.remove(entry)
            return str(entry)


def error_overlooked(drill):
    """Users have met an error, and the judge overlooks it."""
    opened = entries(drill, "opened")
    if opened:
        met = copy.deepcopy(opened[0])
        met.kind, met.what = "failed", {"database": met.what["database"], "text": "planted"}
        journal_of(drill, met.author).entries.append(met)
        return str(met)


def copy_not_compared_passes(drill):
    """A copy could not be read, and the judge takes it for equal."""
    for entry in entries(drill, "compared"):
        for said in entry.what:
            if said["digests"]:
                said["digests"] = None
                return str(entry)


def grade_too_good(drill):
    """A verdict is not proved, and the grade does not say so."""
    if found := verdict(drill, "drill_errors", "pass"):
        found["outcome"] = "unproved"
        return found["text"]


def changed_line(lines):
    """A line is changed after it was written."""
    at = next(at for at, line in enumerate(lines) if b'"acknowledged"' in line)
    lines[at] = lines[at].replace(b'"epoch":', b'"epoch":1', 1)


def missing_line(lines):
    """A line is lost out of the middle."""
    del lines[len(lines) // 2]


def missing_end(lines):
    """The last line is lost."""
    lines.pop()


PROTOCOL = [acknowledged_before_partner, mounted_without_proof, lease_not_waited_for, epoch_given_out_twice,
            stale_epoch_accepted, other_host_activated, divergence_unnoticed, seed_misses_pages,
            loss_of_a_lossless_dial]
JUDGE = [false_alarm, damaged_journal_passes, failure_not_performed_passes, error_overlooked,
         copy_not_compared_passes, grade_too_good]
LINES = [changed_line, missing_line, missing_end]


def plant(drill, folder):
    """Plants each mistake in a drill in which nothing is wrong; gives its name, where it was planted, and what was noticed."""
    for mistake in [*PROTOCOL, *JUDGE]:
        changed = copy.deepcopy(drill)
        where = mistake(changed)
        broken, untrue = changed.findings() if where else ([], [])
        # A mistake of the protocol has to be seen as a broken promise, regardless of the report.
        yield mistake.__name__, where, broken if mistake in PROTOCOL else untrue
    first = drill.hosts[0]
    data = (folder / "hosts" / first.author / "drill.jsonl").read_bytes()
    for mistake in LINES:
        lines = data.splitlines(keepends=True)
        mistake(lines)
        read = type(first).parse(first.author, b"".join(lines), drill.report["run"]["id"])
        yield mistake.__name__, first.author, [read.fault] if read.fault else []
