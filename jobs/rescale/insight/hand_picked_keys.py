"""Keyed operators whose keys were picked by hand, one for each subtask: "virtual keys".

A job that wants to deal records to subtasks itself keys them by numbers that it tried out: one that `keyBy` sends to
subtask 0, one for subtask 1, and so on. Which these are depends on parallelism and max parallelism; in another shape
several of them fall on one subtask and others idle, and nothing warns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.key_groups import key_group_of_hash, subtask_of_key_group
from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keys.smallest_keys import virtual_keys
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.value_words import in_words
from rescale.insight.lone_keys import LoneKey, lone_keys
from rescale.planning.asked.operator_shapes import Shape
from rescale.planning.values.work_class import WorkClass, work_class
from rescale.snapshot.model import Operator, Snapshot

_LEAST_SUBTASKS = 0.75
"""Part of the subtasks that must have their key."""

_MOST_CHANCE = 0.1
"""Keys that nobody picked fall on different subtasks by chance: more likely than that, it means nothing."""


@dataclass(frozen=True)
class PickedKey:
    """A key as people write it, where it lies, and the subtask that it falls on in the new shape (None: not known)."""

    key: str
    key_group: int
    subtask: int
    new_subtask: int | None


@dataclass(frozen=True)
class HandPickedKeys:
    """The keys of an operator, each the only one of its subtask; `chance` is how likely that is if nobody picked them.

    `smallest`: they are those of `virtual_keys`. `idle` new subtasks get no key, `crowded` ones several. `key_type` and
    `table` are the kind and the numbers of keys that would do for the new shape, where there is such a table. `dealt`
    are list states beside the keys, whose elements go to other subtasks than these.
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
    """Those of an operator that gets `shape`; None where there are none, or they cannot be read."""
    parallelism, max_parallelism = operator.parallelism, operator.max_parallelism
    picked = lone_keys(snapshot, operator)
    header = operator.keyed_headers[0] if picked else None
    enough = parallelism > 1 and len(picked) >= _LEAST_SUBTASKS * parallelism
    if header is None or not enough or len({lone.key for lone in picked}) < len(picked):
        return None
    key_type = _KEY_TYPES.get(type_name(header.key_serializer))
    words = [in_words(compile_program(header.key_serializer).tree, ByteReader(lone.key)) for lone in picked]
    smallest = len(picked) == parallelism and words == _table(key_type, max_parallelism, parallelism)
    chance = math.perm(parallelism, len(picked)) / parallelism ** len(picked)
    if chance > _MOST_CHANCE and not smallest:
        return None
    new_groups = _new_key_groups(header, picked, max_parallelism, shape)
    new = [None if g is None else subtask_of_key_group(shape.max_parallelism, shape.parallelism, g) for g in new_groups]
    return HandPickedKeys(
        operator.operator_id,
        operator.label,
        parallelism,
        shape.parallelism,
        shape.max_parallelism,
        tuple(
            PickedKey(word, lone.key_group, lone.subtask, goal)
            for word, lone, goal in zip(words, picked, new, strict=True)
        ),
        chance,
        smallest,
        idle=() if None in new else tuple(i for i in range(shape.parallelism) if i not in new),
        crowded=tuple(i for i in range(shape.parallelism) if new.count(i) > 1),
        key_type=key_type,
        table=virtual_keys(key_type, shape.max_parallelism, shape.parallelism) if key_type else (),
        dealt=_dealt(operator),
    )


_KEY_TYPES = {"Int": "int", "Long": "long", "String": "string"}


def _new_key_groups(
    header: KeyedHeader, keys: Sequence[LoneKey], max_parallelism: int, shape: Shape
) -> list[int | None]:
    """The new key group of each key; None where that is not known."""
    work = work_class(max_parallelism, shape.max_parallelism)
    if work is not WorkClass.REHASH:
        return [lone.key_group % shape.max_parallelism for lone in keys]
    import numpy as np  # which few snapshots need

    from rescale.flink.keys.java_hash import walk_keys
    from rescale.flink.keys.key_hash import known_hash

    if (known := known_hash(header.key_serializer)) is None:
        return [None] * len(keys)
    limits = np.cumsum([len(lone.key) for lone in keys], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), limits[:-1]])
    codes = walk_keys(known.program, np.frombuffer(b"".join(lone.key for lone in keys), np.uint8), starts, limits).codes
    assert codes is not None  # a known hash has a program with one
    return [key_group_of_hash(int(code), shape.max_parallelism) for code in codes]


def _table(key_type: str | None, max_parallelism: int, parallelism: int) -> list[str]:
    """The smallest keys of a shape, in words."""
    if key_type is None:
        return []
    numbers = virtual_keys(key_type, max_parallelism, parallelism)
    return [f'"{number}"' if key_type == "string" else str(number) for number in numbers]


def _dealt(operator: Operator) -> tuple[str, ...]:
    """List states whose elements are dealt round robin, and not with the keys."""
    states = (state for stream in operator.operator for state in stream.states if state.elements)
    return tuple(dict.fromkeys(state.name for state in states if state.mode is DistributionMode.SPLIT_DISTRIBUTE))
