"""Reads run.db as docs/run-db.md describes it: rows, packed samples, HDR histograms."""

import collections
import math
import sqlite3
import zlib

COUNTERS = {"page_fault_stalls", "small_cache_stalls", "cache_bytes", "log_generations", "growth_bytes", "cpu_busy_ns", "cpu_available_ns",
            "cpu_busiest_thread_ns", "host_cpu_busy_ns", "host_cpu_available_ns", "host_memory_available_bytes",
            "host_cpu_stolen_ns", "host_cpu_pressure_ns", "late_ns"}

# One interval of one source; `value` of a counter, the other figures of an I/O class or batches.
Point = collections.namedtuple("Point", "t_ms interval_ms count bytes latency_ns longest_ns value")
# A latency distribution: highest microsecond of each bucket -> operations.
Slice = collections.namedtuple("Slice", "t_ms interval_ms longest_ns buckets")


def leb128(block):
    """Whole numbers, seven bits a byte, low bits first."""
    number = shift = 0
    for byte in block:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError("a block ends within a number")


def points(minute, block, is_counter):
    numbers = list(leb128(block))
    width = 3 if is_counter else 6
    if len(numbers) % width:
        raise ValueError("a block ends within a sample")
    for at in range(0, len(numbers), width):
        t_ms, interval_ms, *rest = numbers[at:at + width]
        values = [0, 0, 0, 0, *rest] if is_counter else [*rest, 0]
        yield Point(minute * 60_000 + t_ms, interval_ms, *values)


def hdr_buckets(blob):
    """Highest value of each bucket and its count: the V2 encoding of HdrHistogram, compressed or not."""
    cookie = int.from_bytes(blob[:4], "big") & ~0xF0
    if cookie == 0x1C849304 & ~0xF0:
        return hdr_buckets(zlib.decompress(blob[8:]))
    if cookie != 0x1C849303 & ~0xF0:
        raise ValueError(f"not an HDR histogram: {blob[:8].hex()}")
    length, digits, lowest = (int.from_bytes(blob[a:b], "big") for a, b in [(4, 8), (12, 16), (16, 24)])
    half_bits = math.ceil(math.log2(2 * 10**digits)) - 1
    half, unit_bits = 1 << half_bits, lowest.bit_length() - 1
    found, index = [], 0
    for number in zigzag(blob[40:40 + length]):
        if number < 0:
            index -= number
            continue
        if number:
            # The first two halves have the width of the unit; each further half is twice as wide as the one before.
            doublings, place = (0, index) if index < 2 * half else (index // half - 1, index % half + half)
            width = 1 << (doublings + unit_bits)
            found.append((place * width + width - 1, number))
        index += 1
    return found


def zigzag(payload):
    """Signed numbers; nine bytes at most, of which the ninth is whole."""
    number = shift = 0
    for byte in payload:
        if shift == 56:
            number |= byte << shift
        else:
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte >= 0x80:
                continue
        yield (number >> 1) ^ -(number & 1)
        number = shift = 0


class Run:
    """The rows of a run; series and distributions are unpacked."""

    def __init__(self, path):
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row
        self.tables = {row[0] for row in self.db.execute("SELECT name FROM sqlite_master")}
        self.run = self.rows("SELECT * FROM run")[0]
        self.tests = self.rows("SELECT * FROM test ORDER BY ordinal")
        self.instances = self.rows("SELECT * FROM instance")
        self.databases = self.rows("SELECT * FROM database")
        self.volumes = self.table("volume")
        self.sources = self.rows("SELECT * FROM source ORDER BY id")
        for source in self.sources:
            source["points"], source["slices"] = [], []
        by_id = {source["id"]: source for source in self.sources}
        for row in self.db.execute("SELECT source, minute, samples FROM series ORDER BY source, minute"):
            source = by_id[row["source"]]
            source["points"] += points(row["minute"], row["samples"], source["measure"] in COUNTERS)
        for row in self.db.execute("SELECT * FROM histogram"):
            by_id[row["source"]]["slices"].append(
                Slice(row["t_ms"], row["interval_ms"], row["latency_ns_max"], hdr_buckets(row["hdr_v2"])))

    def rows(self, sql, *values):
        return [dict(row) for row in self.db.execute(sql, values)]

    def table(self, name):
        """All rows, in the order recorded; none in files of builds that did not have the table."""
        return self.rows(f"SELECT * FROM {name} ORDER BY rowid") if name in self.tables else []

    def of_test(self, name, ordinal):
        return [row for row in self.table(name) if row["test"] == ordinal]
