"""Snapshots of a POJO, each with subclasses that the other snapshot lacks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from rescale.flink.serializers.reading import snapshot_bytes
from rescale.flink.serializers.subclasses import merge_snapshots
from support.snapshot_bytes import BASE, CUSTOM, INT, LONG, STRING, composite, list_of, parsed, pojo

FIELDS: dict[str, bytes | None] = {"a": INT, "b": STRING}
DEEP = pojo({"y": LONG}, name="com.x.Deep")
DEEPER = pojo({"y": LONG}, {"com.x.E": INT}, name="com.x.Deep")

DEEPEST = pojo({"y": LONG}, {"com.x.E": INT, "com.x.F": INT}, name="com.x.Deep")
LIST_OF_UNKNOWN = list_of(CUSTOM)


def pojo_with(**subclasses: bytes | None) -> bytes:
    return pojo(FIELDS, {f"com.x.{name}": snapshot for name, snapshot in subclasses.items()})


def merged_snapshot(first: bytes, other: bytes) -> bytes | None:
    mine, theirs = parsed(first), parsed(other)
    merged = merge_snapshots(mine, theirs)
    if merged is None:
        return None
    assert merged.covers(mine)
    assert merged.covers(theirs)
    merged_bytes = snapshot_bytes(merged)
    assert parsed(merged_bytes) == merged
    return merged_bytes


def as_it_is(snapshot: bytes) -> bytes:
    return snapshot


def map_of(snapshot: bytes) -> bytes:
    return composite(BASE + "MapSerializerSnapshot", STRING, snapshot)


def list_of_maps_of(snapshot: bytes) -> bytes:
    return list_of(map_of(snapshot))


def field_of(snapshot: bytes) -> bytes:
    return pojo({"a": LONG, "b": list_of(snapshot), "c": CUSTOM, "d": None})


def registered_subclass_with(snapshot: bytes) -> bytes:
    return pojo(FIELDS, {"com.x.Met": LONG}, {"com.x.R": pojo({"field": snapshot}, name="com.x.R")})


@pytest.mark.parametrize("wrap", [as_it_is, list_of, map_of, list_of_maps_of, field_of, registered_subclass_with])
@pytest.mark.parametrize(
    ("first", "other", "both"),
    [
        (pojo_with(A=LONG), pojo_with(B=DEEP), pojo_with(A=LONG, B=DEEP)),
        (pojo_with(A=LONG, B=INT), pojo_with(C=INT, A=LONG), pojo_with(A=LONG, B=INT, C=INT)),
        (pojo_with(A=None), pojo_with(B=INT, A=LONG), pojo_with(B=INT, A=LONG)),
        (pojo_with(A=None, B=INT), pojo_with(A=LONG), pojo_with(A=LONG, B=INT)),
        (pojo_with(A=LONG, B=INT), pojo_with(A=None, C=None), pojo_with(A=LONG, B=INT, C=None)),
        (pojo_with(A=DEEP, B=INT), pojo_with(A=DEEPER), pojo_with(A=DEEPER, B=INT)),
        (
            pojo_with(A=DEEPER),
            pojo_with(A=pojo({"y": LONG}, {"com.x.F": INT}, name="com.x.Deep")),
            pojo_with(A=DEEPEST),
        ),
    ],
)
def test_merged_snapshot_has_the_subclasses_of_both(
    wrap: Callable[[bytes], bytes], first: bytes, other: bytes, both: bytes
) -> None:
    assert merged_snapshot(wrap(first), wrap(other)) == wrap(both)


def test_merging_several_snapshots_keeps_all_subclasses() -> None:
    for first, second, third in permutations([pojo_with(A=LONG), pojo_with(B=INT), pojo_with(C=DEEP)]):
        both = merged_snapshot(first, second)
        assert both is not None
        all_three = merged_snapshot(both, third)
        assert all_three is not None
        assert {name for name, _ in parsed(all_three).subclasses} == {"com.x.A", "com.x.B", "com.x.C"}


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (pojo_with(A=LONG), pojo_with(A=INT)),
        (pojo_with(A=LONG, B=INT), pojo_with(A=INT, C=INT)),
        (pojo_with(A=LONG), pojo({"b": STRING, "a": INT}, {"com.x.B": INT})),
        (pojo_with(A=LONG), pojo(FIELDS, {"com.x.B": INT}, registered={"com.x.R": INT})),
        (pojo_with(A=LONG), pojo(FIELDS, {"com.x.B": INT}, name="com.x.Other")),
        (pojo({"field": pojo_with(A=LONG)}), pojo({"field": pojo_with(A=INT)})),
        (pojo({"field": pojo_with(A=LONG)}), pojo({"field": None})),
        (pojo({"field": pojo_with(A=LONG)}), pojo({"other": pojo_with(B=LONG)})),
        (pojo_with(A=LONG), pojo(FIELDS, {"com.x.A": pojo({"a": LIST_OF_UNKNOWN})})),
        (INT, LONG),
        (list_of(pojo_with(A=LONG)), map_of(pojo_with(B=LONG))),
        (map_of(pojo_with(A=LONG)), composite(BASE + "MapSerializerSnapshot", INT, pojo_with(B=LONG))),
        (map_of(pojo_with(A=LONG)), composite(BASE + "MapSerializerSnapshot", pojo_with(B=LONG))),
    ],
)
def test_snapshots_that_differ_otherwise_are_not_merged(first: bytes, other: bytes) -> None:
    assert merged_snapshot(first, other) is None
    assert merged_snapshot(other, first) is None
