#!/usr/bin/env python3
"""Checks an EDB file from end to end, independently of the engine that wrote it.

 edb_check.py [--no-checksum] FILE...

Header and shadow, checksum and structure of every page, every B+ tree (separators, key order, levels, sibling links, flags),
catalog and its shadow copy, and exact space accounting: each owned page is used, available, or handed to a child tree, once.
Dirty headers are accepted (and said so). Pages that are owned but neither used, available nor handed on are counted as
leaked; a crash may leave some, so they are no error.

 --no-checksum   skip the page checksums (structure and trees are still checked)

Exit status: 0 everything holds, 1 something does not, 2 wrong usage or a file that cannot be read.
"""
import gzip
import mmap
import struct
import sys
import zlib
from collections import namedtuple

MAGIC = 0x89ABCDEF
PAGE_SIZES = (4096, 8192, 16384, 32768)
ROOT, LEAF, PARENT_OF_LEAF, SPACE, NON_UNIQUE, NEW_RECORDS, NEW_CHECKSUM, PREINIT = (
    0x1, 0x2, 0x4, 0x20, 0x400, 0x800, 0x2000, 0x20000)
KIND = 0x4C0                      # index, long value, non-unique: the same on every page of a tree
DELETED, COMPRESSED = 2, 4
CATALOG, CATALOG_SHADOW = 4, 24   # fixed page numbers
STATES = {1: "just created", 2: "dirty", 3: "clean", 4: "converting", 5: "force detached", 6: "reseeding",
          7: "dirty and patched", 8: "reverting"}
PROBLEMS_SHOWN = 20

Node = namedtuple("Node", "flags key data")
Extents = namedtuple("Extents", "owned available parent")
PAGE_HEADER = struct.Struct("<QQIIIHHHHI")


class Unreadable(Exception):
    pass


class Broken(Exception):
    """something that cannot be followed any further"""


# ---- checksums -----------------------------------------------------------------------------------------------------

class BlockSum:
    """The sum of one block size. A block is one big number; XOR-folding it in halves gives, on the way down, the parity
    of each bit of the set bits' indices: the upper half holds exactly the indices with that bit set."""

    def __init__(self, block_bytes):
        self.bits = block_bytes * 8
        self.halves = []
        width = self.bits
        while width > 1:
            width //= 2
            self.halves.append((width, (1 << width) - 1))

    def __call__(self, block, pgno):
        value = int.from_bytes(block, "little")
        low = word = 0
        for width, mask in self.halves:
            upper = value >> width
            if upper.bit_count() & 1:
                low |= width
            value = (value & mask) ^ upper
            if width == 32:
                word = value
        high = low ^ (self.bits - 1 if value else 0)
        return high << 48 | low << 32 | (word ^ pgno)


def xor_of_words(block):
    value, width = int.from_bytes(block, "little"), len(block) * 8
    while width > 32:
        width //= 2
        value = (value >> width) ^ (value & ((1 << width) - 1))
    return value


def header_sum(page):
    return MAGIC ^ xor_of_words(b"\0\0\0\0" + bytes(page[4:]))


class PageSums:
    def __init__(self, page_bytes):
        self.places = (0,) if page_bytes <= 8192 else (0, 40, 48, 56)
        self.block_bytes = page_bytes // len(self.places)
        self.block_sum = BlockSum(self.block_bytes)

    def wrong(self, page, pgno):
        """None, or what is wrong with the checksum of a page that is not zero"""
        if not page[37] & 0x20:
            stored, number = struct.unpack_from("<II", page)
            return None if (stored, number) == (header_sum(page), pgno) else "old-format checksum"
        for block, place in enumerate(self.places):
            start = block * self.block_bytes
            body = page[start:start + self.block_bytes]
            if block == 0:
                body = bytes(8) + body[8:]
            if self.block_sum(body, pgno) != int.from_bytes(page[place:place + 8], "little"):
                return f"checksum of block {block}"
        return None


# ---- pages ---------------------------------------------------------------------------------------------------------

class Page:
    """one page, taken apart; `problems` lists the rules of a single page that it breaks"""
    __slots__ = ("pgno", "objid", "prev", "next", "flags", "external", "nodes", "problems")

    def __init__(self, data, pgno):
        size = len(data)
        small = size <= 8192
        start = 40 if small else 80
        mask = 0x1FFF if small else 0x7FFF
        (_, _, self.prev, self.next, self.objid, free, held, mark, tags, self.flags) = PAGE_HEADER.unpack_from(data)
        self.pgno, self.problems, self.nodes, self.external = pgno, [], [], b""
        count, reserved = tags & 0xFFF, max(1, tags >> 12 & 7)
        room = size - start - 4 * count
        if not small and struct.unpack_from("<I", data, 64)[0] != pgno:
            self.problems.append("another page number in its header")
        if not self.flags & NEW_RECORDS:
            self.problems.append("old record format")
        if count < reserved or mark > room or held > free:
            self.problems.append(f"{count} tags, {free} bytes free, {held} held, free mark {mark}")
            return
        words = struct.unpack_from(f"<{2 * count}H", data, size - 4 * count)
        lengths = [word & mask for word in words[-2::-2]]
        places = [word & mask for word in words[::-2]]
        tops = [word >> 13 for word in words[::-2]]
        self.check_areas(lengths, places, reserved, mark, room - free)
        if self.problems:
            return
        self.external = bytes(data[start + places[0]:start + places[0] + lengths[0]])
        if self.flags & ROOT and len(self.external) < 16:
            self.problems.append("a root without its external header")
        prefix = self.external if not self.flags & ROOT else self.external[16:] if self.flags & SPACE else b""
        for index in range(reserved, count):
            at = start + places[index]
            self.add_node(bytes(data[at:at + lengths[index]]), tops[index] if small else None, prefix)

    def check_areas(self, lengths, places, reserved, mark, used):
        if sum(lengths) != used:
            self.problems.append(f"{sum(lengths)} bytes in nodes, {used} by its header")
        if 0 in lengths[reserved:]:
            self.problems.append("an empty node")
        end = 0
        for place, length in sorted((p, n) for p, n in zip(places, lengths) if n):
            if place < end:
                self.problems.append(f"nodes overlap at {place}")
            end = place + length
        if end > mark:
            self.problems.append("a node beyond the free mark")

    def add_node(self, body, flags, prefix):
        slot = len(self.nodes)
        if len(body) < 2:
            self.problems.append(f"node {slot} is too short")
            return
        first = body[0] | body[1] << 8
        if flags is None:
            flags = first >> 13
        first &= 0x1FFF
        if flags & COMPRESSED:
            taken, at = first, 4
            suffix = (body[2] | body[3] << 8) & 0x1FFF if len(body) >= 4 else len(body)
            if not 2 < taken <= len(prefix):
                self.problems.append(f"node {slot} takes {taken} of {len(prefix)} prefix bytes")
        else:
            taken, at, suffix = 0, 2, first
        data = body[at + suffix:]
        if not data:
            self.problems.append(f"node {slot} has no data")
        self.nodes.append(Node(flags, prefix[:taken] + body[at:at + suffix], data))

    def child(self, slot):
        if len(self.nodes[slot].data) != 4:
            raise Broken(f"page {self.pgno}: branch entry {slot} has {len(self.nodes[slot].data)} bytes of data")
        return int.from_bytes(self.nodes[slot].data, "little")


# ---- catalog -------------------------------------------------------------------------------------------------------

def catalog_row(data):
    """(type, id, root page, name) of a catalog record; fixed columns lie at fixed offsets, the name is the first
    variable column"""
    if len(data) < 4:
        raise Broken("a catalog record is too short")
    last_fixed, last_variable, fixed_end = struct.unpack_from("<BBH", data)
    if last_fixed < 4 or last_variable < 128 or len(data) < fixed_end + 2 or fixed_end < 18:
        raise Broken("a catalog record lacks columns")
    kind, ident, root = struct.unpack_from("<hiI", data, 8)
    names_at = fixed_end + 2 * (last_variable - 127)
    name_end = struct.unpack_from("<H", data, fixed_end)[0] & 0x7FFF
    return kind, ident, root, data[names_at:names_at + name_end].decode("latin-1")


# ---- the file ------------------------------------------------------------------------------------------------------

class Database:
    def __init__(self, path):
        self.problems = []
        self.data = self.load(path)
        self.page_bytes, self.state = self.read_header()
        self.last_pgno = len(self.data) // self.page_bytes - 2
        self.owner = {}
        self.initialised = []
        self.leaked = 0

    @staticmethod
    def load(path):
        try:
            with open(path, "rb") as file:
                if file.read(2) == b"\x1f\x8b":
                    return gzip.open(path).read()
                return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError, EOFError, zlib.error) as error:
            raise Unreadable(f"{path}: {error}") from error

    def problem(self, text):
        self.problems.append(text)

    def read_header(self):
        usable = []
        for size in PAGE_SIZES:
            for name, at in (("header", 0), ("shadow", size)):
                page = self.data[at:at + size]
                if len(page) == size and struct.unpack_from("<I", page, 4)[0] == MAGIC and \
                        (struct.unpack_from("<I", page, 236)[0] or 4096) == size and \
                        struct.unpack_from("<I", page)[0] == header_sum(page):
                    usable.append((name, size, bytes(page)))
        if not usable:
            raise Broken("neither header nor shadow is intact")
        size, page = usable[0][1:]
        names = [name for name, *_ in usable]
        for name in ("header", "shadow"):
            if name not in names:
                self.problem(f"the {name} is damaged")
        state = struct.unpack_from("<I", page, 52)[0]
        if state not in STATES:
            self.problem(f"unknown state {state}")
        if state == 3:
            if usable[-1][2] != page:
                self.problem("header and shadow differ in a clean database")
            if any(page[668:]):
                self.problem("bytes behind 668 are not zero in a clean header")
        self.dbtime = struct.unpack_from("<Q", page, 16)[0]
        return size, STATES.get(state, "unknown")

    def raw(self, pgno):
        at = (pgno + 1) * self.page_bytes
        return self.data[at:at + self.page_bytes]

    def page(self, pgno):
        """a page of a tree, its own rules checked"""
        page = Page(self.tree_bytes(pgno), pgno)
        for text in page.problems:
            self.problem(f"page {pgno}: {text}")
        return page

    def tree_bytes(self, pgno):
        if not 1 <= pgno <= self.last_pgno:
            raise Broken(f"page {pgno} is outside the file (1..{self.last_pgno})")
        return self.raw(pgno)

    def flags(self, pgno):
        return struct.unpack_from("<I", self.tree_bytes(pgno), 36)[0]

    def check_sums(self, with_checksum):
        """each page alone; its structure is checked with its tree, or at the end if it is in none"""
        sums = PageSums(self.page_bytes)
        zero_page = bytes(self.page_bytes)
        if len(self.data) % self.page_bytes:
            self.problem(f"{len(self.data) % self.page_bytes} bytes behind the last whole page")
        for pgno in range(1, self.last_pgno + 1):
            data = self.raw(pgno)
            if data == zero_page:
                continue
            if pgno == self.last_pgno and self.is_trailer(data):
                self.last_pgno -= 1
                break
            self.initialised.append(pgno)
            wrong = sums.wrong(data, pgno) if with_checksum else None
            if wrong:
                self.problem(f"page {pgno}: wrong {wrong}")
            dbtime, = struct.unpack_from("<Q", data, 8)
            if self.state == "clean" and self.dbtime < dbtime < 1 << 63:
                self.problem(f"page {pgno}: dbtime {dbtime} is above the header's {self.dbtime}")

    def check_pages_in_no_tree(self):
        for pgno in self.initialised:
            if pgno not in self.owner and not self.flags(pgno) & PREINIT:
                self.page(pgno)

    @staticmethod
    def is_trailer(data):
        words = struct.unpack_from("<7I", data)
        return not (words[1] or words[2] or words[3] or words[6]) and words[0] == header_sum(data)

    # -- trees

    def check_tree(self, root_pgno, objid, name, is_space=False, keep_nodes=False):
        """walks a tree level by level; returns its pages and, if they are to be kept, the leaf nodes in order"""
        root_flags = self.flags(root_pgno)
        by_entry = root_flags & NON_UNIQUE and not is_space
        level, pages, kept, chain = [(root_pgno, None, None)], set(), [], []
        while level:
            below = []
            for pgno, low, high in level:
                if pgno in pages:
                    raise Broken(f"{name}: page {pgno} is in the tree twice")
                pages.add(pgno)
                page = self.page(pgno)
                self.check_page_of_tree(page, pgno == root_pgno, root_flags, objid, name, is_space)
                if page.flags & LEAF:
                    chain.append((pgno, page.prev, page.next))
                    kept += page.nodes if keep_nodes else []
                    self.check_leaf(page, low, high, by_entry, name)
                else:
                    below += self.check_branch(page, low, high, name)
            if chain and below:
                self.problem(f"{name}: leaves on two levels")
            level = below
        self.check_siblings(chain, name)
        for pgno in pages:
            if pgno in self.owner:
                self.problem(f"page {pgno} belongs to {self.owner[pgno]} and to {name}")
            self.owner[pgno] = name
        return pages, kept

    def check_page_of_tree(self, page, is_root, root_flags, objid, name, is_space):
        if page.objid != objid:
            self.problem(f"{name}: page {page.pgno} has object id {page.objid}, not {objid}")
        if bool(page.flags & ROOT) != is_root or bool(page.flags & SPACE) != is_space \
                or (page.flags ^ root_flags) & KIND:
            self.problem(f"{name}: page {page.pgno} has flags {page.flags:#x}, its root {root_flags:#x}")

    def check_leaf(self, page, low, high, by_entry, name):
        keys = [node.key + node.data for node in page.nodes] if by_entry else [node.key for node in page.nodes]
        for slot in range(1, len(keys)):
            if keys[slot - 1] >= keys[slot]:
                self.problem(f"{name}: page {page.pgno} node {slot} is out of order")
        if keys and (low is not None and keys[0] < low or high is not None and keys[-1] >= high):
            self.problem(f"{name}: page {page.pgno} has keys outside its separators")

    def check_branch(self, page, low, high, name):
        """the children with their bounds"""
        if not page.nodes:
            raise Broken(f"{name}: branch page {page.pgno} is empty")
        children, last = [], len(page.nodes) - 1
        for slot, node in enumerate(page.nodes):
            child = page.child(slot)
            upper = high if slot == last else node.key
            # The last entry of the rightmost page of a level is open; other pages keep their parent's separator there.
            if node.key and slot == last and node.key != high or not node.key and slot != last:
                self.problem(f"{name}: branch page {page.pgno} entry {slot} has a key of {len(node.key)} bytes")
            if slot < last and (low is not None and upper <= low or high is not None and upper > high):
                self.problem(f"{name}: branch page {page.pgno} separator {slot} is out of order")
            if bool(page.flags & PARENT_OF_LEAF) != bool(self.flags(child) & LEAF):
                self.problem(f"{name}: branch page {page.pgno} is wrong about the level of page {child}")
            children.append((child, low, upper))
            low = upper
        return children

    def check_siblings(self, chain, name):
        numbers = [0, *(pgno for pgno, *_ in chain), 0]
        for index, (pgno, *links) in enumerate(chain):
            neighbours = [numbers[index], numbers[index + 2]]
            if links != neighbours:
                self.problem(f"{name}: leaf {pgno} lies between {neighbours}, but names {links}")

    # -- space

    def extents_of(self, root_pgno, objid, name):
        header = self.page(root_pgno).external
        if len(header) < 16:
            raise Broken(f"{name}: no space header on page {root_pgno}")
        primary, parent, flags, word = struct.unpack("<4I", header[1:17] if len(header) > 16 else header)
        if not flags & 1:
            available = {root_pgno + 1 + bit for bit in range(min(primary - 1, 32)) if word >> bit & 1}
            return Extents(set(self.extent(root_pgno + primary - 1, primary, name)), available, parent), []
        sets, pages = [], []
        for root, which in ((word, "owned"), (word + 1, "available")):
            tree_pages, nodes = self.check_tree(root, objid, f"{name}/{which}", is_space=True, keep_nodes=True)
            pages += tree_pages
            extents = set()
            for node in nodes:
                if node.flags & DELETED:
                    continue
                if len(node.key) not in (4, 5) or len(node.data) != 4:
                    raise Broken(f"{name}: malformed entry in the {which} extents")
                last, count = int.from_bytes(node.key[-4:], "big"), int.from_bytes(node.data, "little")
                extent = self.extent(last, count, name)
                if not extents.isdisjoint(extent):
                    self.problem(f"{name}: {which} extents overlap at page {last}")
                extents.update(extent)
            sets.append(extents)
        return Extents(*sets, parent), pages

    def extent(self, last, count, name):
        """the pages of an extent, those behind the end of the file left out"""
        if not 0 < count <= last:
            self.problem(f"{name}: an extent of {count} pages ends at page {last}")
            count = min(count, last)
        if last > self.last_pgno:
            self.problem(f"{name}: the file is cut off: it has pages up to {last}, the file ends at {self.last_pgno}")
        return range(last - count + 1, min(last, self.last_pgno) + 1)

    def check_space(self, trees):
        """trees: root page -> (name, pages of tree and space trees, extents)"""
        children = {}
        for root, (name, _, extents) in trees.items():
            children.setdefault(extents.parent, []).append((name, extents.owned))
        for root, (name, used, extents) in trees.items():
            left = set(extents.owned)
            parts = [("uses", used), ("has available", extents.available)]
            parts += [(f"gave to {child}", owned) for child, owned in children.pop(root, [])]
            for what, part in parts:
                stray = part - left
                if stray:
                    twice = stray & extents.owned
                    why = "that are taken already" if twice else "that it does not own"
                    self.problem(f"{name} {what} pages {sorted(stray)[:5]} {why}")
                left -= part
            self.leaked += len(left)
        for parent in children:
            if parent:
                self.problem(f"page {parent} is named as parent of a tree and is no root")

    def check(self, with_checksum):
        """everything; returns a line that sums up"""
        self.check_sums(with_checksum)
        catalog_pages, rows = self.check_tree(CATALOG, 2, "catalog", keep_nodes=True)
        shadow_pages, shadow_rows = self.check_tree(CATALOG_SHADOW, 3, "shadow catalog", keep_nodes=True)
        rows, shadow_rows = ([(node.key, node.data) for node in nodes if not node.flags & DELETED]
                             for nodes in (rows, shadow_rows))
        if rows != shadow_rows:
            self.problem("catalog and shadow catalog differ")
        found = {CATALOG: (2, "catalog"), CATALOG_SHADOW: (3, "shadow catalog"), 1: (1, "database")}
        for _, data in rows:
            kind, ident, root, name = catalog_row(data)
            if kind in (1, 3, 4):
                found.setdefault(root, (ident, name))
        walked = {CATALOG: catalog_pages, CATALOG_SHADOW: shadow_pages}
        trees = {}
        for root, (objid, name) in found.items():
            pages = walked[root] if root in walked else self.check_tree(root, objid, name)[0]
            extents, space_pages = self.extents_of(root, objid, name)
            trees[root] = (name, pages.union(space_pages), extents)
        self.check_space(trees)
        self.check_pages_in_no_tree()
        return (f"{self.page_bytes // 1024} KiB pages, {self.state}, {self.last_pgno} pages, "
                f"{self.last_pgno - len(self.initialised)} never written, {len(trees)} trees, {len(rows)} catalog rows, "
                f"{len(self.owner)} pages used, {self.leaked} leaked")


def check_file(path, with_checksum):
    try:
        database = Database(path)
    except Broken as broken:
        print(f"{path}: BAD: {broken}")
        return False
    try:
        summary = database.check(with_checksum)
    except Broken as broken:
        database.problem(str(broken))
        summary = "cannot be followed to the end"
    except (struct.error, IndexError) as error:
        database.problem(f"damaged beyond following: {error}")
        summary = "cannot be followed to the end"
    problems = database.problems
    print(f"{path}: {'ok' if not problems else f'BAD, {len(problems)} problems'}: {summary}")
    for text in problems[:PROBLEMS_SHOWN]:
        print("   " + text)
    return not problems


def main(arguments):
    if arguments in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    paths = [argument for argument in arguments if argument != "--no-checksum"]
    if not paths or any(path.startswith("-") for path in paths):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        results = [check_file(path, "--no-checksum" not in arguments) for path in paths]
    except Unreadable as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
