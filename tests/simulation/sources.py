"""Sources in memory: savepoints in many shapes that are written record by record, and small committed snapshots."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from random import Random

from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import (
    DistributionMode,
    HandleTag,
    InlineStream,
    KeyGroupsHandle,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
)
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.metadata.writer import write_metadata
from rescale.flink.operator_id import operator_id_of_uid
from simulation.flinks_rules import hash_code_of_long, key_group_of_code, key_groups_of_subtask
from simulation.model import shapes_of, states_of
from simulation.rows import Kind
from support.canonical import Record, write_group
from support.snapshot_bytes import LONG, broadcast_state, keyed_header, keyed_state, operator_header, operator_list
from support.snapshots import directory

_SMALL_SNAPSHOTS = ("2-finished", "2-source", "1.20-partially-finished", "2-windows", "2.1.1-clicks")
_LARGER_SNAPSHOTS = ("2-raw", "2-heap-native", "1.20-canonical-compressed", "2-lazy")
_KEYED_STATES = ("counts", "sums", "latest")


@dataclass(frozen=True)
class Source:
    """Objects of a snapshot by name, and the shapes that its result may get (an empty text: unchanged)."""

    name: str
    objects: Mapping[str, bytes]
    parallelisms: Sequence[str]
    max_parallelisms: Sequence[str]
    kind: Kind = Kind.CANONICAL
    uids: Sequence[str] = ()
    """Uids of operators, which snapshots do not store."""

    is_changelog: bool = False
    """Whether the keyed state has a changelog."""

    other_objects: Mapping[str, bytes] = field(default_factory=dict)
    """Other objects in the bucket that a request needs, by their keys."""

    @cached_property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """Return parallelism and max parallelism by operator id."""
        return shapes_of(self.objects)

    @cached_property
    def states(self) -> list[str]:
        """Return the sorted `UID:NAME` of states of operators with known uids."""
        return states_of(self.objects, self.uids)


def draw_source(random: Random) -> Source:
    draw = random.random()
    if draw < 0.03:
        return flinks_source(random.choice(_LARGER_SNAPSHOTS))
    if draw < 0.15:
        return flinks_source(random.choice(_SMALL_SNAPSHOTS))
    return written_source(random.randrange(24))


@cache
def flinks_source(name: str, kind: Kind = Kind.CANONICAL) -> Source:
    """Return a committed snapshot."""
    files = {path.name: path.read_bytes() for path in Path(directory(name)).iterdir()}
    keeps_shape = "finished" in name  # a finished subtask keeps its place
    return Source(name, files, ("",) if keeps_shape else ("1", "2", "3", "4", "5"), ("",), kind)


@cache
def written_source(number: int) -> Source:
    """Return a source of four operators: keyed, with operator state, without state, and keyed with one subtask."""
    random = Random(f"source {number}")
    max_parallelism = random.choice((4, 6, 8, 12, 16, 200))
    parallelism = random.randint(1, min(4, max_parallelism))
    objects: dict[str, bytes] = {}
    operators = (
        _keyed_operator(random, objects, "keyed", parallelism, max_parallelism),
        elements_operator(random, objects, parallelism, max_parallelism),
        OperatorState(operator_id_of_uid("stateless"), "", "", parallelism, max_parallelism, None, ()),
        _keyed_operator(random, objects, "single", 1, 1),
    )
    objects["_metadata"] = write_metadata(Metadata(4, 7, (), operators, savepoint_properties(is_canonical=True)))
    uids = ("keyed", "elements", "stateless", "single")
    return Source(f"written {number}", objects, *shapes_to_draw(max_parallelism), uids=uids)


def shapes_to_draw(max_parallelism: int) -> tuple[Sequence[str], Sequence[str]]:
    """Return the parallelisms and max parallelisms that a source may get."""
    parallelisms = [str(n) for n in range(1, 6) if n <= max_parallelism]
    divisors = [str(n) for n in range(5, max_parallelism) if max_parallelism % n == 0]
    return ("", *parallelisms), ("", "", *divisors, "5", "9", "130", "256")


def _keyed_operator(
    random: Random, objects: dict[str, bytes], uid: str, parallelism: int, max_parallelism: int
) -> OperatorState:
    states = _KEYED_STATES[: random.randint(1, 3)]
    header = keyed_header(*(keyed_state(state) for state in states), key=LONG)
    records_by_group: dict[int, list[Record]] = {}
    for key in random.sample(range(-1000, 1000), random.choice((0, 3, 10, 40))):
        data = struct.pack(">q", key)
        for state in range(len(states)):
            if random.random() < 0.7:
                records = records_by_group.setdefault(key_group_of_code(hash_code_of_long(key), max_parallelism), [])
                records.append(Record(state, data + b"\0", random.randbytes(random.choice((8, 60)))))
    subtasks = []
    for subtask in range(parallelism):
        own_groups = key_groups_of_subtask(max_parallelism, parallelism, subtask)
        content, offsets = bytearray(header), []
        for key_group in own_groups:
            data = write_group(key_group, sorted(records_by_group.get(key_group, ())), max_parallelism)
            offsets.append(len(content) if data else 0)
            content += data
        stream = store_stream(random, objects, f"{uid}-{subtask}", bytes(content))
        handle = KeyGroupsHandle(HandleTag.SAVEPOINT_KEY_GROUPS, own_groups[0], tuple(offsets), stream)
        subtasks.append(Subtask(subtask, False, SubtaskState(managed_keyed=handle)))
    return OperatorState(operator_id_of_uid(uid), "", "", parallelism, max_parallelism, None, tuple(subtasks))


def elements_operator(
    random: Random, objects: dict[str, bytes], parallelism: int, max_parallelism: int
) -> OperatorState:
    """Return an operator with two split states, a union state, and a broadcast state with equal copies."""
    header = operator_header(
        (operator_list("offsets"), operator_list("splits"), operator_list("all", mode="UNION")),
        (broadcast_state("rules"),),
    )
    rules, subtasks = random.randbytes(20), []
    for subtask in range(parallelism):
        content, states = bytearray(header), []
        for name, mode in (
            ("offsets", DistributionMode.SPLIT_DISTRIBUTE),
            ("splits", DistributionMode.SPLIT_DISTRIBUTE),
            ("all", DistributionMode.UNION),
            ("rules", DistributionMode.BROADCAST),
        ):
            elements = [rules] if name == "rules" else [_draw_element(random) for _ in range(random.randint(0, 4))]
            offsets = []
            for element in elements:
                offsets.append(len(content))
                content += element
            states.append(OperatorStateOffsets(name, mode, tuple(offsets)))
        stream = store_stream(random, objects, f"elements-{subtask}", bytes(content))
        handle = OperatorHandle(tuple(states), stream, None)
        subtasks.append(Subtask(subtask, False, SubtaskState(managed_operator=handle)))
    return OperatorState(
        operator_id_of_uid("elements"),
        "",
        "",
        parallelism,
        max_parallelism,
        InlineStream("coordinator", random.randbytes(30)),
        tuple(subtasks),
    )


def _draw_element(random: Random) -> bytes:
    """Draw an element; 30 per cent are equal, to show whether equal elements of a UNION state are merged by mistake."""
    return bytes([7] * 5) if random.random() < 0.3 else random.randbytes(random.choice((1, 4, 90)))


def store_stream(
    random: Random, objects: dict[str, bytes], name: str, content: bytes
) -> RelativeFileStream | InlineStream:
    """Return the handle of a stream, which is stored in `objects`, or in a fifth of all cases in the handle itself."""
    if random.random() < 0.2:
        return InlineStream(name, content)
    objects[name] = content
    return RelativeFileStream(name, len(content))
