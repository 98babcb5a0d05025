"""Search for keys that may have changed, in those files that only one of two versions of a database has.

The databases are models of an LSM tree: files that are written, merged into the next level, and never changed. A model
may also go back to an earlier state, as a job does that is restored, and use its sequence numbers a second time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby, takewhile
from random import Random
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from rescale.flink.arrays import Longs
from rescale.rocksdb.engine.changes import entry_batches
from rescale.rocksdb.engine.changes.changed_keys import Candidates, UnsharedTable, changed_keys
from rescale.rocksdb.engine.changes.keys import joined_keys, keys_of
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE, DataBlocks
from rescale.text.errors import SnapshotError
from support.slow import slow_but

DELETION, VALUE, MERGE, SINGLE_DELETION = 0, 1, 2, 7
LEVEL_COUNT = 4
KEYS = [bytes([group, *name]) for group in (0, 1) for name in (b"a", b"ab", b"b", b"c", b"d", b"e")]
BEGIN, END = b"\0", b"\2"

_numbers = count(1)


class Entry(NamedTuple):
    key: bytes
    sequence: int
    kind: int
    value: bytes


@dataclass(frozen=True)
class File:
    """An SST file with entries in RocksDB's order; every file has its own number, even if entries are equal."""

    entries: tuple[Entry, ...]
    number: int = field(default_factory=lambda: next(_numbers))

    def overlaps(self, files: Sequence[File]) -> bool:
        first, last = self.entries[0].key, self.entries[-1].key
        return any(other.entries[0].key <= last and first <= other.entries[-1].key for other in files)


@dataclass
class Tree:
    """A model of an LSM tree: levels of files; those of level 0 overlap, the newest first."""

    levels: list[list[File]] = field(default_factory=lambda: [[] for _ in range(LEVEL_COUNT)])
    sequence: int = 0

    def copied(self) -> Tree:
        return Tree([list(level) for level in self.levels], self.sequence)

    def write(self, changes: Sequence[tuple[bytes, int, bytes]]) -> None:
        entries = []
        for key, kind, value in changes:
            self.sequence += 1
            entries.append(Entry(key, self.sequence, kind, value))
        self.levels[0].insert(0, File(_merged(entries, is_last=False)))

    def compact(self, level: int, rng: Random) -> None:
        """Merge files into the next level, where those with the same keys are rewritten."""
        if not self.levels[level]:
            return
        inputs = list(self.levels[level]) if level == 0 else [rng.choice(self.levels[level])]
        below = [file for file in self.levels[level + 1] if file.overlaps(inputs)]
        is_last = not any(file.overlaps([*inputs, *below]) for deeper in self.levels[level + 2 :] for file in deeper)
        entries = _merged([entry for file in (*inputs, *below) for entry in file.entries], is_last=is_last)
        by_key = [list(entries_of_key) for _, entries_of_key in groupby(entries, key=lambda entry: entry.key)]
        size = rng.randint(1, 4)
        files = [
            File(tuple(entry for entries_of_key in by_key[i : i + size] for entry in entries_of_key))
            for i in range(0, len(by_key), size)
        ]
        self.levels[level] = [file for file in self.levels[level] if file not in inputs]
        rest = [file for file in self.levels[level + 1] if file not in below]
        self.levels[level + 1] = sorted([*rest, *files], key=lambda file: file.entries[0].key)

    @property
    def files(self) -> dict[int, tuple[int, File]]:
        """Return (level, file) by the number of the file."""
        return {file.number: (number, file) for number, level in enumerate(self.levels) for file in level}

    def live(self) -> dict[bytes, bytes]:
        """Return the value of each key as a read finds it: level by level, the newest file first."""
        entries: dict[bytes, list[Entry]] = {}
        for level in self.levels:
            for file in level:
                for entry in file.entries:
                    entries.setdefault(entry.key, []).append(entry)
        values = {key: _value(entries_of_key) for key, entries_of_key in entries.items()}
        return {key: value for key, value in values.items() if value is not None}


def _value(entries: Sequence[Entry]) -> bytes | None:
    operands: list[bytes] = []
    for entry in entries:
        if entry.kind == MERGE:
            operands.append(entry.value)
            continue
        if entry.kind == VALUE:
            operands.append(entry.value)
        elif not operands:
            return None
        break
    return b",".join(reversed(operands))


def _merged(entries: Sequence[Entry], *, is_last: bool) -> tuple[Entry, ...]:
    """Return the entries that a compaction leaves; in the last level, no deletions, and 0 as all sequence numbers."""
    entries_left: list[Entry] = []
    for key, entries_of_key in groupby(
        sorted(entries, key=lambda entry: (entry.key, -entry.sequence)), lambda entry: entry.key
    ):
        merged = list(entries_of_key)
        base = next((i for i, entry in enumerate(merged) if entry.kind != MERGE), None)
        merged = merged if base is None else merged[: base + 1]
        if is_last or (base is not None and base > 0):
            value = _value(merged)
            if value is not None:
                entries_left.append(Entry(key, 0 if is_last else merged[0].sequence, VALUE, value))
        else:
            entries_left += merged
    return tuple(entries_left)


class BlocksOfEntries:
    """Stand-in for an SST file, with a few entries in each block."""

    path = "/somewhere/000001.sst"

    def __init__(self, entries: Sequence[Entry], entries_per_block: int, sequence: int = 0) -> None:
        self._blocks = [encoded(entries[i : i + entries_per_block]) for i in range(0, len(entries), entries_per_block)]
        self.properties = type("Properties", (), {"global_sequence": sequence})

    def data_blocks(self) -> tuple[Longs, Longs]:
        sizes = np.array([len(block) for block in self._blocks], np.int64)
        return np.cumsum(sizes + 5) - sizes - 5, sizes

    def read_blocks(self, offsets: Longs, sizes: Longs) -> DataBlocks:
        first, trailer = int(np.searchsorted(self.data_blocks()[0], offsets[0])), bytes(TRAILER_SIZE)
        stored = b"".join(block + trailer for block in self._blocks[first : first + len(offsets)])
        starts = offsets - offsets[0]
        return DataBlocks(np.frombuffer(bytearray(stored), np.uint8), starts, starts + sizes)


def encoded(entries: Sequence[Entry]) -> bytes:
    """Return a data block, whose keys omit the prefix that they share with the key before."""
    data, before = b"", b""
    for entry in entries:
        key = entry.key + struct.pack("<Q", entry.sequence << 8 | entry.kind)
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, key, strict=False)))
        data += varint(shared) + varint(len(key) - shared) + varint(len(entry.value)) + key[shared:] + entry.value
        before = key
    return data + struct.pack("<II", 0, 1)


def live_file(level: int, file: File) -> LiveFile:
    first, last = (InternalKey(entry.key, entry.sequence, entry.kind) for entry in (file.entries[0], file.entries[-1]))
    sequences = [entry.sequence for entry in file.entries]
    return LiveFile(level, file.number, 1, first, last, min(sequences), max(sequences))


class CandidateKeys(NamedTuple):
    """The candidate keys, in order.

    `decided` has the new values of those that the entries decide (None for a deletion). `merged` are the keys whose
    newest entry is a merge.
    """

    keys: list[bytes]
    decided: dict[bytes, bytes | None]
    merged: list[bytes]


def candidates_in(batches: Iterable[Candidates]) -> CandidateKeys:
    keys, decided, merged = list[bytes](), dict[bytes, bytes | None](), list[bytes]()
    for batch in batches:
        entries = batch.decided
        values = [
            entries.data[start:end].tobytes() if kind == VALUE else None
            for start, end, kind in zip(entries.value_starts, entries.value_ends, entries.kinds, strict=True)
        ]
        decided |= zip(entries.key_column, values, strict=True)
        merged += batch.merged
        keys += sorted([*batch.undecided, *entries.key_column, *batch.merged])
    return CandidateKeys(keys, decided, merged)


def candidates_between(before: Tree, after: Tree, entries_per_block: int = 2) -> CandidateKeys:
    earlier, later = before.files, after.files

    def unshared_tables(
        files: dict[int, tuple[int, File]], other_files: dict[int, tuple[int, File]]
    ) -> list[UnsharedTable]:
        return [
            UnsharedTable(live_file(level, file), cast(SstTable, BlocksOfEntries(file.entries, entries_per_block)))
            for number, (level, file) in files.items()
            if number not in other_files
        ]

    shared = [live_file(level, file) for number, (level, file) in later.items() if number in earlier]
    last_sequence = max((entry.sequence for _, file in earlier.values() for entry in file.entries), default=0)
    return candidates_in(
        changed_keys(
            unshared_tables(earlier, later), unshared_tables(later, earlier), shared, BEGIN, END, last_sequence
        )
    )


def history(rng: Random) -> Iterator[Tree]:
    """Draw the successive states of a database, which sometimes returns to an earlier state."""
    tree, states = Tree(), [Tree()]
    for _ in range(rng.randint(2, 14)):
        step = rng.random()
        if step < 0.45:
            keys = rng.sample(KEYS, rng.randint(1, 5))
            kinds = rng.choices([DELETION, VALUE, MERGE], [2, 5, 3], k=len(keys))
            values = [b"" if kind == DELETION else rng.choice([b"x", b"y"]) for kind in kinds]
            tree.write(list(zip(keys, kinds, values, strict=True)))
        elif step < 0.9:
            tree.compact(rng.randrange(LEVEL_COUNT - 1), rng)
        else:
            tree = rng.choice(states).copied()
        states.append(tree.copied())
    yield from states


@pytest.mark.parametrize("bytes_at_once", [1, 1 << 20])
@pytest.mark.parametrize("seed", slow_but(lambda seed: seed < 4, range(20)))
def test_keys_with_differing_values_are_always_found(
    monkeypatch: pytest.MonkeyPatch, bytes_at_once: int, seed: int
) -> None:
    monkeypatch.setattr(entry_batches, "_BYTES_AT_ONCE", bytes_at_once)
    rng = Random(seed)
    for _ in range(25):
        states = list(history(rng))
        for _ in range(6):
            before, after = rng.choice(states), rng.choice(states)
            chosen = candidates_between(before, after, rng.randint(1, 3))
            assert chosen.keys == sorted(set(chosen.keys))
            old_values, new_values = before.live(), after.live()
            differing = {key for key in KEYS if old_values.get(key) != new_values.get(key)}
            assert differing <= set(chosen.keys)
            assert chosen.decided == {key: new_values.get(key) for key in chosen.decided}
            assert new_values.keys() >= set(chosen.merged)


def compacted_to_the_end(tree: Tree) -> Tree:
    compacted, rng = tree.copied(), Random(1)
    for level in range(LEVEL_COUNT - 1):
        while compacted.levels[level]:
            compacted.compact(level, rng)
    return compacted


def test_keys_of_rows_that_compaction_only_moved_are_no_candidates() -> None:
    tree = Tree()
    tree.write([(key, VALUE, b"x" + key) for key in KEYS])
    compacted_tree = compacted_to_the_end(tree)
    assert compacted_tree.files.keys().isdisjoint(tree.files)
    assert candidates_between(tree, compacted_tree).keys == []
    assert candidates_between(compacted_tree, compacted_to_the_end(compacted_tree)).keys == []
    compacted_tree.write([(KEYS[3], VALUE, b"other"), (KEYS[5], DELETION, b"")])
    assert candidates_between(tree, compacted_tree) == ([KEYS[3], KEYS[5]], {KEYS[3]: b"other", KEYS[5]: None}, [])
    assert candidates_between(tree, compacted_to_the_end(compacted_tree)) == ([KEYS[3], KEYS[5]], {}, []), (
        "sequence numbers are gone"
    )


def test_key_with_sequence_number_0_below_a_shared_file_is_a_candidate() -> None:
    """The job returns to a state before `newer` and writes again the value that it had written after `newer`."""
    key = KEYS[0]
    bottom, newer = File((Entry(key, 0, VALUE, b"x"),)), File((Entry(key, 7, VALUE, b"newer"),))
    newest = File((Entry(key, 9, VALUE, b"x"),))
    before, after = Tree([[newest], [newer], [], []]), Tree([[], [newer], [], [bottom]])
    assert (before.live()[key], after.live()[key]) == (b"x", b"newer")
    assert candidates_between(before, after).keys == [key]
    file_with_newer_key = File((*newer.entries, Entry(KEYS[2], 12, VALUE, b"newer")))
    before.levels[1] = after.levels[1] = [file_with_newer_key]
    assert candidates_between(before, after).keys == [key]
    file_of_other_key = File((Entry(KEYS[1], 7, VALUE, b"newer"),))
    before.levels[1] = after.levels[1] = [file_of_other_key]
    assert candidates_between(before, after).keys == []
    later_file = File((Entry(key, 12, VALUE, b"later"),))
    before.levels[0], after.levels[0] = [later_file, newest], [later_file]
    assert candidates_between(before, after).keys == [], "no entry of the other files is older than the row was"


EntriesOfKey = tuple[tuple[int, int, bytes], ...]
"""Entries of one key: (sequence number, kind, value)."""


@pytest.mark.parametrize(
    ("earlier", "later", "is_found"),
    [
        ([((7, VALUE, b"x"),)], [((7, VALUE, b"x"),)], False),
        ([((7, VALUE, b"x"),)], [((8, VALUE, b"x"),)], True),
        ([((7, VALUE, b"x"),)], [((7, VALUE, b"y"),)], True),
        ([((7, VALUE, b"x"), (6, VALUE, b"a"))], [((7, VALUE, b"x"),)], False),
        ([((7, VALUE, b"x"),)], [], True),
        ([], [((7, DELETION, b""),)], True),
        ([((7, DELETION, b""),)], [((7, DELETION, b""),)], False),
        ([((7, DELETION, b""),)], [((9, DELETION, b""),)], True),
        ([((7, DELETION, b""),)], [((0, DELETION, b""),)], True),
        ([((7, VALUE, b""),)], [((7, DELETION, b""),)], True),
        ([((7, SINGLE_DELETION, b""),)], [((7, SINGLE_DELETION, b""),)], True),
        ([((7, MERGE, b"x"),)], [((7, MERGE, b"x"),)], False),
        ([((7, MERGE, b"x"),)], [((8, MERGE, b"x"),)], True),
        ([((7, MERGE, b"x"), (5, MERGE, b"a"))], [((7, MERGE, b"x"), (5, MERGE, b"b"))], True),
        ([((7, MERGE, b"x"), (5, MERGE, b"a"))], [((7, MERGE, b"x"),)], True),
        ([((7, MERGE, b"x"),)], [((7, MERGE, b"x"), (5, MERGE, b"a"))], True),
        ([((7, MERGE, b"x"),)], [((7, MERGE, b"x"),), ((5, MERGE, b"a"),)], True),
        ([((7, VALUE, b"x"),), ((9, VALUE, b"y"),)], [((9, VALUE, b"y"),)], False),
    ],
)
def test_entries_decide_whether_a_key_is_a_candidate(
    earlier: list[EntriesOfKey], later: list[EntriesOfKey], is_found: bool
) -> None:
    """Each inner list holds the entries of one file. A newer value or deletion decides alone."""
    sides = [
        [
            UnsharedTable(live_file(0, file), cast(SstTable, BlocksOfEntries(file.entries, 1)))
            for file in (File(tuple(Entry(KEYS[0], *entry) for entry in entries_of_key)) for entries_of_key in files)
        ]
        for files in (earlier, later)
    ]
    chosen = candidates_in(changed_keys(*sides, [], BEGIN, END, 7))
    assert chosen.keys == [KEYS[0]] * is_found
    newest = max((entry for file in later for entry in file), default=(0, VALUE, b""))
    is_newer = newest[0] > 7 and is_found
    is_decided = is_newer and newest[1] in (DELETION, VALUE)
    assert chosen.decided == ({KEYS[0]: newest[2] if newest[1] == VALUE else None} if is_decided else {})
    assert chosen.merged == [KEYS[0]] * (is_newer and newest[1] == MERGE)


def test_rows_of_an_ingested_file_have_the_sequence_number_of_the_file() -> None:
    file = File((Entry(KEYS[0], 0, VALUE, b"x"),))
    tables = [
        UnsharedTable(live_file(1, file), cast(SstTable, BlocksOfEntries(file.entries, 1, sequence)))
        for sequence in (4, 5)
    ]
    assert candidates_in(changed_keys(tables[:1], tables[1:], [], BEGIN, END, 4)) == ([KEYS[0]], {KEYS[0]: b"x"}, [])
    assert candidates_in(changed_keys(tables[:1], tables[1:], [], BEGIN, END, 5)) == ([KEYS[0]], {}, [])
    assert not list(changed_keys(tables[:1], tables[:1], [], BEGIN, END, 4))


def test_changed_keys_are_limited_to_the_range() -> None:
    tree = Tree()
    tree.write([(key, VALUE, b"x") for key in KEYS])
    files = [
        UnsharedTable(live_file(0, file), cast(SstTable, BlocksOfEntries(file.entries, 1))) for file in tree.levels[0]
    ]
    in_range = candidates_in(changed_keys([], files, [], b"\0b", b"\1b", 0))
    assert in_range.keys == [key for key in KEYS if b"\0b" <= key < b"\1b"]


@pytest.mark.parametrize("entries_per_block", [1, 2])
def test_unsorted_rows_are_refused(entries_per_block: int) -> None:
    file = File((Entry(KEYS[1], 1, VALUE, b""), Entry(KEYS[0], 2, VALUE, b"")))
    unsorted_table = UnsharedTable(live_file(0, file), cast(Any, BlocksOfEntries(file.entries, entries_per_block)))
    with pytest.raises(SnapshotError, match="not sorted"):
        list(changed_keys([], [unsorted_table], [], BEGIN, END, 0))


def test_key_columns_are_split_and_joined() -> None:
    keys = [b"", b"a", b"bc", b"def"]
    parts = [keys_of(keys).part(0, 1), keys_of(keys).part(1, 3), keys_of(keys).part(3, 4)]
    assert [list(part) for part in parts] == [[b""], [b"a", b"bc"], [b"def"]]
    assert list(joined_keys(parts)) == keys
