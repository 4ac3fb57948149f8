"""The journals of a drill: one of each host, one of the arbiter (docs/drills.md, *Journals*)."""

import json
import re

from xxh3 import xxh3_128

LINE = re.compile(rb'\{"n":(\d+),"said":(.*),"chain":"([0-9a-f]{32})"\}')


class Journal:
    """What one author wrote, up to the first line that does not follow from the one before it."""

    def __init__(self, author, entries=(), fault=None):
        self.author, self.entries, self.fault = author, list(entries), fault
        # When its author ended it, if that is known.
        self.ended = None

    @staticmethod
    def read(author, path, run):
        try:
            return Journal.parse(author, path.read_bytes(), run)
        except FileNotFoundError:
            return Journal(author, fault="it is missing")

    @staticmethod
    def parse(author, data, run):
        journal, chain, ended = Journal(author), 0, False
        lines = data.split(b"\n")[:-1]
        for number, line in enumerate(lines):
            match = LINE.fullmatch(line)
            if not match or int(match[1]) != number or ended:
                return journal.broken(number)
            chain = xxh3_128(chain.to_bytes(16, "little") + number.to_bytes(8, "little") + match[2])
            if int(match[3], 16) != chain:
                return journal.broken(number)
            said = json.loads(match[2])
            if number == 0:
                if (said["run"], said["host"]) != (run, author):
                    journal.fault = "it is that of another run or host"
                    return journal
            elif isinstance(said["said"], dict) and "ended" in said["said"]:
                ended, journal.ended = True, said["unix_ns"]
                if said["said"]["ended"]["entries"] != number - 1:
                    return journal.broken(number)
            else:
                journal.entries.append(Entry(author, number, said))
        journal.fault = None if ended else "it is not ended"
        return journal

    def broken(self, number):
        self.fault = f"line {number} does not follow from the line before it"
        return self

    def of(self, kind):
        return [entry for entry in self.entries if entry.kind == kind]


class Entry:
    """One line: who wrote it, when it happened at the earliest and at the latest, and what it says."""

    def __init__(self, author, line, said):
        self.author, self.line = author, line
        self.earliest = said["unix_ns"] - said["error_ns"]
        self.latest = said["unix_ns"] + said["error_ns"]
        what = said["said"]
        self.kind, self.what = (what, None) if isinstance(what, str) else next(iter(what.items()))
        if self.kind == "observed":
            self.kind, self.what = next(iter(self.what.items()))

    def __str__(self):
        return f"line {self.line} of {self.author}"
