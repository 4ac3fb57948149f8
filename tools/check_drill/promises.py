"""What users of a drill were promised (docs/drills.md, docs/copies.md), held against the journals.

The judge of Proofload replays the journals in the order of time. Here everything follows from epochs: who acknowledged what in
which epoch, and what the copy found that was mounted in a later one. Time counts for late acknowledgements only.
"""

from collections import defaultdict, namedtuple

Breach = namedtuple("Breach", "promise database text")
# Generations that an activation may lose: the dial, and two that the arbiter need not have heard of.
BOUND = {"good_availability": 6 + 2, "best_availability": 12 + 2}


class Database:
    """What the journals say of one database."""

    def __init__(self, number, journals, arbiter):
        self.number = number
        entries = [entry for journal in journals for entry in journal.entries]
        mine = [entry for entry in entries if entry.kind in ("opened", "acknowledged")
                and entry.what["database"] == number]
        self.mounts = [entry for entry in mine if entry.kind == "opened"]
        self.acknowledged = [entry for entry in mine if entry.kind == "acknowledged"]
        # Once a host has ended its part, the arbiter only sees that no host answers any more.
        over = min((journal.ended for journal in journals if journal.ended), default=None)
        self.decided = [entry for entry in arbiter.of("decided") if entry.what["database"] == number
                        and (over is None or entry.earliest <= over)]
        self.activations = {}
        for entry in self.decided:
            if isinstance(entry.what["event"], dict) and "Activated" in entry.what["event"]:
                activated = entry.what["event"]["Activated"]
                self.activations[activated["epoch"]] = (entry, activated)
        self.errors = [entry for entry in entries if entry.kind == "failed" and entry.what["database"] == number]
        self.stopped = {sample["failure"] for entry in entries if entry.kind == "sample" for sample in entry.what
                        if sample["database"] == number and sample["failure"]}
        self.compared = [(entry, said) for entry in entries if entry.kind == "compared" for said in entry.what
                         if said["database"] == number]


def host_numbers(journals):
    """Which number stands for which host: each host names its own in its samples."""
    samples = ((journal.author, sample) for journal in journals for entry in journal.of("sample")
               for sample in entry.what)
    return {sample["report"]["host"]: author for author, sample in samples}


def lost_commits(database, dial):
    """Each mounted copy holds what was acknowledged in earlier epochs, unless an activation since was to lose some of it."""
    promised, before = {}, 0
    by_epoch = defaultdict(list)
    for entry in [*database.mounts, *database.acknowledged]:
        by_epoch[entry.what["epoch"]].append(entry)
    for epoch, entries in sorted(by_epoch.items()):
        mounts = [entry for entry in entries if entry.kind == "opened"]
        since = [database.activations.get(epoch)]
        since += [said for at, said in database.activations.items() if before < at < epoch]
        is_excused = dial != "lossless" and any(said is None or said[1]["loss"] for said in since)
        for mount in mounts:
            found = mount.what["found"]
            for folder, (version, when) in promised.items():
                if found.get(folder, 0) < version:
                    if not is_excused:
                        yield Breach("lost_commits", database.number,
                                     f"{mount}: epoch {epoch} begins with version {found.get(folder, 0)} of folder "
                                     f"{folder}; {when} has version {version} acknowledged")
            promised = {folder: (min(version, found.get(folder, 0)), when)
                        for folder, (version, when) in promised.items()}
        for entry in entries:
            if entry.kind == "acknowledged":
                for folder, version in entry.what["folders"].items():
                    if version > promised.get(folder, (0, None))[0]:
                        promised[folder] = (version, entry)
        before = epoch


def two_hosts(database, numbers):
    """In each epoch one host acknowledges: the one that the arbiter has activated, after it has mounted."""
    hosts, mounted = defaultdict(dict), {(entry.what["epoch"], entry.author) for entry in database.mounts}
    epochs = [epoch for epoch, _ in mounted]
    for epoch in sorted({epoch for epoch in epochs if epochs.count(epoch) > 1}):
        yield Breach("two_active", database.number, f"epoch {epoch}: two hosts have mounted it")
    for entry in database.acknowledged:
        hosts[entry.what["epoch"]].setdefault(entry.author, entry)
    for epoch, first in sorted(hosts.items()):
        if len(first) > 1:
            yield Breach("two_active", database.number,
                         f"epoch {epoch}: {' and '.join(sorted(first))} acknowledge ({', '.join(map(str, first.values()))})")
        for host, entry in first.items():
            chosen = database.activations.get(epoch)
            if chosen and numbers.get(chosen[1]["holder"], host) != host:
                yield Breach("two_active", database.number,
                             f"{entry}: {host} acknowledges in epoch {epoch}, for which the arbiter chose another host")
            if (epoch, host) not in mounted:
                yield Breach("two_active", database.number, f"{entry}: {host} has not mounted epoch {epoch}")


def late(database):
    """Nobody acknowledges in an epoch when a later one has certainly begun: when its copy has been activated or is mounted."""
    begun = [(entry.what["epoch"], entry.latest, entry) for entry in database.mounts]
    begun += [(epoch, entry.latest, entry) for epoch, (entry, _) in database.activations.items()]
    for entry in database.acknowledged:
        later = [(when, of) for epoch, when, of in begun if epoch > entry.what["epoch"] and when < entry.earliest]
        if later:
            when, of = min(later, key=lambda pair: pair[0])
            yield Breach("late", database.number,
                         f"{entry}: acknowledged in epoch {entry.what['epoch']}, "
                         f"{(entry.earliest - when) / 1e9:.3f} s after a later one has begun ({of})")


def lost_logs(database, dial):
    """No activation loses more generations than the dial allows."""
    for epoch, (entry, activated) in database.activations.items():
        loss = activated["loss"]
        if loss and dial != "lossless" and loss["bound_generations"] > BOUND[dial]:
            yield Breach("lost_logs", database.number,
                         f"{entry}: epoch {epoch} may lose {loss['bound_generations']} log generations")
        if loss and dial == "lossless":
            yield Breach("lost_commits", database.number, f"{entry}: the lossless dial loses log in epoch {epoch}")


def unequal(database):
    """Copies say the same of every page that they compare."""
    pages = defaultdict(dict)
    for entry, said in database.compared:
        for place, digest in (said["digests"] or {}).items():
            pages[place].setdefault(digest, entry.author)
    for place, digests in pages.items():
        if len(digests) > 1:
            yield Breach("copies_equal", database.number,
                         f"page {place} differs between {' and '.join(sorted(digests.values()))}")
    read = [set(said["digests"]) for _, said in database.compared if said["digests"] is not None]
    if any(places != read[0] for places in read):
        yield Breach("copies_equal", database.number, "copies have compared different pages")


def breaches(database, dial, numbers):
    """Every promise that the journals show to be broken."""
    yield from lost_commits(database, dial)
    yield from two_hosts(database, numbers)
    yield from late(database)
    yield from lost_logs(database, dial)
    yield from unequal(database)
