"""Finds keyed operators whose keys were picked by hand, one for each subtask: "virtual keys".

Some jobs choose the subtask of a record themselves. By trial, their authors have found for each subtask a number that
`keyBy` sends to this subtask, and the job uses these numbers as keys. The numbers depend on parallelism and max
parallelism. In another shape several of them go to the same subtask, other subtasks get no records, and Flink does not
warn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.key_groups import key_group_of_hash, subtask_of_key_group
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keys.virtual_keys import virtual_keys
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.value_format import format_value
from rescale.insight.single_keys import SingleKey, single_keys
from rescale.plan.work_class import WorkClass, work_class
from rescale.planning.request.operator_shapes import Shape
from rescale.snapshot.model import Operator, Snapshot

_LEAST_SUBTASK_SHARE = 0.75
"""Smallest share of the subtasks that must have exactly one key for keys to count as hand-picked."""

_LARGEST_CHANCE = 0.1
"""Largest probability that random keys fall on different subtasks.

If it is higher, keys count as hand-picked only if each is the smallest possible one for its subtask.
"""


@dataclass(frozen=True)
class PickedKey:
    """A key as text, with the subtask of its key group. `new_subtask` is its subtask in the new shape, if known."""

    key: str
    key_group: int
    subtask: int
    new_subtask: int | None


@dataclass(frozen=True)
class HandPickedKeys:
    """The hand-picked keys of an operator, each of which is the only key of its subtask.

    `chance` is the probability that random keys would be distributed like this. `smallest` tells whether each key is
    the smallest one that Flink sends to its subtask. In the new shape, the subtasks `idle` get no key and the subtasks
    `crowded` get several. `table` has the smallest key for each new subtask if the keys have a `key_type`. `dealt` are
    list states whose elements are dealt round robin, without regard to keys.
    """

    operator_id: str
    label: str
    parallelism: int
    new_parallelism: int
    new_max_parallelism: int
    keys: tuple[PickedKey, ...]
    chance: float
    smallest: bool
    idle: tuple[int, ...]
    crowded: tuple[int, ...]
    key_type: str | None
    table: tuple[int, ...]
    dealt: tuple[str, ...]


def hand_picked_keys(snapshot: Snapshot, operator: Operator, shape: Shape) -> HandPickedKeys | None:
    """Return the hand-picked keys of an operator that gets a new `shape`.

    Return None if its keys are not hand-picked, or cannot be read.
    """
    parallelism, max_parallelism = operator.parallelism, operator.max_parallelism
    picked_keys = single_keys(snapshot, operator)
    header = operator.keyed_headers[0] if picked_keys else None
    has_enough_keys = parallelism > 1 and len(picked_keys) >= _LEAST_SUBTASK_SHARE * parallelism
    if header is None or not has_enough_keys or len({single.key for single in picked_keys}) < len(picked_keys):
        return None
    key_type = _KEY_TYPE_BY_SERIALIZER.get(type_name(header.key_serializer))
    key_texts = [
        format_value(compile_program(header.key_serializer).tree, ByteReader(single.key)) for single in picked_keys
    ]
    are_smallest = len(picked_keys) == parallelism and key_texts == _smallest_keys(
        key_type, max_parallelism, parallelism
    )
    chance = math.perm(parallelism, len(picked_keys)) / parallelism ** len(picked_keys)
    if chance > _LARGEST_CHANCE and not are_smallest:
        return None
    new_groups = _new_key_groups(header, picked_keys, max_parallelism, shape)
    new_subtasks = [
        None if g is None else subtask_of_key_group(shape.max_parallelism, shape.parallelism, g) for g in new_groups
    ]
    return HandPickedKeys(
        operator_id=operator.operator_id,
        label=operator.label,
        parallelism=parallelism,
        new_parallelism=shape.parallelism,
        new_max_parallelism=shape.max_parallelism,
        keys=tuple(
            PickedKey(text, single.key_group, single.subtask, new_subtask)
            for text, single, new_subtask in zip(key_texts, picked_keys, new_subtasks, strict=True)
        ),
        chance=chance,
        smallest=are_smallest,
        idle=() if None in new_subtasks else tuple(i for i in range(shape.parallelism) if i not in new_subtasks),
        crowded=tuple(i for i in range(shape.parallelism) if new_subtasks.count(i) > 1),
        key_type=key_type,
        table=virtual_keys(key_type, shape.max_parallelism, shape.parallelism) if key_type else (),
        dealt=_dealt_states(operator),
    )


_KEY_TYPE_BY_SERIALIZER = {"Int": "int", "Long": "long", "String": "string"}


def _new_key_groups(
    header: KeyedHeader, keys: Sequence[SingleKey], max_parallelism: int, shape: Shape
) -> list[int | None]:
    work = work_class(max_parallelism, shape.max_parallelism)
    if work is not WorkClass.REHASH:
        return [single.key_group % shape.max_parallelism for single in keys]
    import numpy as np  # slow to import, and few snapshots need it

    from rescale.flink.keys.java_hash import walk_keys
    from rescale.flink.keys.key_hash import known_hash

    if (key_hash := known_hash(header.key_serializer)) is None:
        return [None] * len(keys)
    key_ends = np.cumsum([len(single.key) for single in keys], dtype=np.int64)
    key_starts = np.concatenate([np.zeros(1, np.int64), key_ends[:-1]])
    hash_codes = walk_keys(
        key_hash.program, np.frombuffer(b"".join(single.key for single in keys), np.uint8), key_starts, key_ends
    ).hash_codes
    assert hash_codes is not None  # a known hash has a program that computes the codes
    return [key_group_of_hash(int(hash_code), shape.max_parallelism) for hash_code in hash_codes]


def _smallest_keys(key_type: str | None, max_parallelism: int, parallelism: int) -> list[str]:
    """Return the smallest key for each subtask of a shape, as texts; no keys if `key_type` is None."""
    if key_type is None:
        return []
    smallest_numbers = virtual_keys(key_type, max_parallelism, parallelism)
    return [f'"{number}"' if key_type == "string" else str(number) for number in smallest_numbers]


def _dealt_states(operator: Operator) -> tuple[str, ...]:
    states = (state for stream in operator.element_streams for state in stream.states if state.elements)
    return tuple(dict.fromkeys(state.name for state in states if state.mode is DistributionMode.SPLIT_DISTRIBUTE))
