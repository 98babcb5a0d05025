"""Native savepoints to rescale, with RocksDB directories or heap streams, and the wishes that suit them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import HandleTag, IncrementalHandle, KeyGroupsHandle, RocksdbFile, Stream
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.operator_id import operator_id_of_uid
from rescale.plan.proof import Proof
from rescale.planning.request.result_files import Files, Format
from simulation.flinks_rules import hash_code_of_long, key_group_of_code, key_groups_of_subtask
from simulation.native_databases import KeyRanges, Rows, write_database
from simulation.rows import Kind
from simulation.run import Wish
from simulation.sources import Source, elements_operator, flinks_source, shapes_to_draw, store_stream
from support.canonical import prefix
from support.snapshot_bytes import LONG, keyed_header, keyed_state, list_of

_FLINKS_SNAPSHOTS = ("2-rocksdb-native", "1.20-rocksdb-native", "2-rocksdb-3to2", "1.20-rocksdb-2to3")
KEYED_STATES = {"counts": "VALUE", "ways": "LIST", "latest": "VALUE"}


def draw_native(random: Random) -> Source:
    draw = random.random()
    if draw < 0.1:
        return flinks_source(random.choice(_FLINKS_SNAPSHOTS), Kind.ROCKSDB)
    return heap_source(random.randrange(12)) if draw < 0.3 else rocksdb_source(random.randrange(16))


def fit_to_kind(random: Random, source: Source, wish: Wish) -> Wish:
    """Return the wish with a format, files and a proof that fit the source."""
    rocksdb = source.kind is Kind.ROCKSDB
    formats = {
        Kind.CANONICAL: (Format.ROCKSDB,),
        Kind.HEAP: (Format.KEEP, Format.KEEP, Format.CANONICAL, Format.ROCKSDB),
        Kind.ROCKSDB: (Format.KEEP, Format.KEEP, Format.KEEP, Format.ROCKSDB, Format.CANONICAL),
    }
    wish = replace(wish, format=random.choice(formats[source.kind]))
    if source.is_changelog:
        fits = wish.format is not Format.KEEP or rocksdb
        return wish if fits else replace(wish, format=Format.CANONICAL)
    if not rocksdb or wish.format is Format.CANONICAL or wish.max_parallelism not in ("", *_max_parallelisms(source)):
        return wish
    files, proof = random.choice((Files.COPY, Files.COPY, Files.REFER)), random.choice((Proof.RECORDS, Proof.FILES))
    return replace(wish, files=files, proof=proof)


def _max_parallelisms(source: Source) -> set[str]:
    return {str(maximum) for _, maximum in source.shapes.values() if maximum != 1}


@cache
def rocksdb_source(number: int) -> Source:
    return _native_source(Random(f"rocksdb source {number}"), f"in RocksDB {number}", Kind.ROCKSDB)


@cache
def heap_source(number: int) -> Source:
    return _native_source(Random(f"heap source {number}"), f"on the heap {number}", Kind.HEAP)


def _native_source(random: Random, name: str, kind: Kind) -> Source:
    max_parallelism = random.choice((4, 6, 8, 12, 16, 200))
    parallelism = random.randint(1, min(4, max_parallelism))
    objects: dict[str, bytes] = {}
    write_operator = _database_operator if kind is Kind.ROCKSDB else _heap_operator
    operators = (
        write_operator(random, objects, parallelism, max_parallelism, name),
        elements_operator(random, objects, parallelism, max_parallelism),
        OperatorState(operator_id_of_uid("stateless"), "", "", parallelism, max_parallelism, None, ()),
    )
    objects["_metadata"] = write_metadata(Metadata(4, 7, (), operators, savepoint_properties(is_canonical=False)))
    return Source(name, objects, *shapes_to_draw(max_parallelism), kind, ("keyed", "elements", "stateless"))


def _database_operator(
    random: Random, objects: dict[str, bytes], parallelism: int, max_parallelism: int, name: str
) -> OperatorState:
    states = list(KEYED_STATES)[: random.randint(1, 3)]
    rows = draw_rows(random, states, max_parallelism)
    is_clipped, is_lazy = random.random() < 0.3, random.random() < 0.6
    subtasks = []
    for subtask in range(parallelism):
        own_groups = key_groups_of_subtask(max_parallelism, parallelism, subtask)
        own_rows = {
            state: {k: v for k, v in rows[state].items() if group_of(k, max_parallelism) in own_groups}
            for state in states
        }
        known_states = [state for state in states if own_rows[state] or not is_lazy] or states[:1]
        ranges = KeyRanges(
            own=(prefix(own_groups[0], max_parallelism), prefix(own_groups[-1] + 1, max_parallelism)),
            all=(prefix(0, max_parallelism), prefix(max_parallelism, max_parallelism)),
        )
        foreign_rows: Rows = {}
        if is_clipped:
            foreign_rows = {
                state: {k: v for k, v in rows[state].items() if k not in own_rows[state]} for state in known_states
            }
        list_states = [state for state in known_states if KEYED_STATES[state] == "LIST"]
        files = write_database(
            random,
            {state: own_rows[state] for state in known_states},
            list_states,
            foreign_rows,
            ranges,
            f"{name} {subtask}",
        )
        meta = store_stream(random, objects, f"meta-{subtask}", header_of(known_states))
        private = (
            RocksdbFile(file, store_stream(random, objects, f"db-{subtask}-{file}", files[file]))
            for file in sorted(files)
        )
        handle = incremental_handle(subtask, own_groups, meta, (), private)
        subtasks.append(Subtask(subtask, False, SubtaskState(managed_keyed=handle)))
    return OperatorState(operator_id_of_uid("keyed"), "", "", parallelism, max_parallelism, None, tuple(subtasks))


def incremental_handle(
    subtask: int, own_groups: Sequence[int], meta: Stream, shared: Iterable[RocksdbFile], private: Iterable[RocksdbFile]
) -> IncrementalHandle:
    """Return the handle of a database with the key groups `own_groups`; the backend id follows from the subtask."""
    return IncrementalHandle(
        HandleTag.INCREMENTAL_V2,
        checkpoint_id=7,
        backend_id=f"00000000-0000-0000-0000-{subtask:012}",
        first_key_group=own_groups[0],
        key_group_count=len(own_groups),
        checkpointed_size=0,
        meta=meta,
        shared=tuple(shared),
        private=tuple(private),
        handle_id=f"handle-{subtask}",
    )


def _heap_operator(
    random: Random, objects: dict[str, bytes], parallelism: int, max_parallelism: int, name: str
) -> OperatorState:
    """Return an operator whose key groups have their number and a block for each state (`HeapSnapshotStrategy`)."""
    states = ["counts", "latest"][: random.randint(1, 2)]
    rows = draw_rows(random, states, max_parallelism, long_values=True)
    prefix_size = len(prefix(0, max_parallelism))
    subtasks = []
    for subtask in range(parallelism):
        own_groups = key_groups_of_subtask(max_parallelism, parallelism, subtask)
        content, offsets = bytearray(header_of(states)), []
        for group in own_groups:
            offsets.append(len(content))
            content += struct.pack(">i", group)
            for i, state in enumerate(states):
                entries = [
                    (k[prefix_size:], v) for k, v in rows[state].items() if group_of(k, max_parallelism) == group
                ]
                random.shuffle(entries)
                content += struct.pack(">hi", i, len(entries))
                content += b"".join(b"\0" + key[:-1] + value for key, value in entries)
        stream = store_stream(random, objects, f"keyed-{subtask}", bytes(content))
        handle = KeyGroupsHandle(HandleTag.KEY_GROUPS_V2, own_groups[0], tuple(offsets), stream, f"{name} {subtask}")
        subtasks.append(Subtask(subtask, False, SubtaskState(managed_keyed=handle)))
    return OperatorState(operator_id_of_uid("keyed"), "", "", parallelism, max_parallelism, None, tuple(subtasks))


def header_of(states: Sequence[str]) -> bytes:
    return keyed_header(*map(keyed_info, states), key=LONG)


def keyed_info(state: str) -> bytes:
    """Return the entry of a header for a keyed state."""
    is_list = KEYED_STATES[state] == "LIST"
    return keyed_state(state, list_of(LONG) if is_list else LONG, KEYED_STATES[state])


def draw_rows(random: Random, states: Sequence[str], max_parallelism: int, *, long_values: bool = False) -> Rows:
    """Draw rows of some keys; elements of lists are joined by commas. With `long_values`, values are longs."""
    rows: Rows = {state: {} for state in states}
    for key in random.sample(range(-1000, 1000), random.choice((0, 3, 10, 40))):
        group = key_group_of_code(hash_code_of_long(key), max_parallelism)
        key_with_group = prefix(group, max_parallelism) + struct.pack(">q", key) + b"\0"
        for state in states:
            if random.random() < 0.7:
                size = 8 if long_values else random.choice((8, 60))
                elements = [bytes(random.randrange(97, 123) for _ in range(8)) for _ in range(random.randint(1, 3))]
                rows[state][key_with_group] = (
                    b",".join(elements) if KEYED_STATES[state] == "LIST" else random.randbytes(size)
                )
    return rows


def group_of(key: bytes, max_parallelism: int) -> int:
    return int.from_bytes(key[: len(prefix(0, max_parallelism))], "big")
