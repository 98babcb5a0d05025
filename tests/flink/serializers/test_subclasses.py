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
UNKNOWN_INSIDE = list_of(CUSTOM)


def of(**subclasses: bytes | None) -> bytes:
    return pojo(FIELDS, {f"com.x.{name}": snapshot for name, snapshot in subclasses.items()})


def together(first: bytes, other: bytes) -> bytes | None:
    mine, theirs = parsed(first), parsed(other)
    joined = merge_snapshots(mine, theirs)
    if joined is None:
        return None
    assert joined.covers(mine)
    assert joined.covers(theirs)
    joined_snapshot = snapshot_bytes(joined)
    assert parsed(joined_snapshot) == joined
    return joined_snapshot


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
        (of(A=LONG), of(B=DEEP), of(A=LONG, B=DEEP)),
        (of(A=LONG, B=INT), of(C=INT, A=LONG), of(A=LONG, B=INT, C=INT)),
        (of(A=None), of(B=INT, A=LONG), of(B=INT, A=LONG)),
        (of(A=None, B=INT), of(A=LONG), of(A=LONG, B=INT)),
        (of(A=LONG, B=INT), of(A=None, C=None), of(A=LONG, B=INT, C=None)),
        (of(A=DEEP, B=INT), of(A=DEEPER), of(A=DEEPER, B=INT)),
        (of(A=DEEPER), of(A=pojo({"y": LONG}, {"com.x.F": INT}, name="com.x.Deep")), of(A=DEEPEST)),
    ],
)
def test_merged_snapshot_has_the_subclasses_of_both(
    wrap: Callable[[bytes], bytes], first: bytes, other: bytes, both: bytes
) -> None:
    assert together(wrap(first), wrap(other)) == wrap(both)


def test_merging_several_snapshots_keeps_all_subclasses() -> None:
    for first, second, third in permutations([of(A=LONG), of(B=INT), of(C=DEEP)]):
        both = together(first, second)
        assert both is not None
        all_of_them = together(both, third)
        assert all_of_them is not None
        assert {name for name, _ in parsed(all_of_them).subclasses} == {"com.x.A", "com.x.B", "com.x.C"}


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (of(A=LONG), of(A=INT)),
        (of(A=LONG, B=INT), of(A=INT, C=INT)),
        (of(A=LONG), pojo({"b": STRING, "a": INT}, {"com.x.B": INT})),
        (of(A=LONG), pojo(FIELDS, {"com.x.B": INT}, registered={"com.x.R": INT})),
        (of(A=LONG), pojo(FIELDS, {"com.x.B": INT}, name="com.x.Other")),
        (pojo({"field": of(A=LONG)}), pojo({"field": of(A=INT)})),
        (pojo({"field": of(A=LONG)}), pojo({"field": None})),
        (pojo({"field": of(A=LONG)}), pojo({"other": of(B=LONG)})),
        (of(A=LONG), pojo(FIELDS, {"com.x.A": pojo({"a": UNKNOWN_INSIDE})})),
        (INT, LONG),
        (list_of(of(A=LONG)), map_of(of(B=LONG))),
        (map_of(of(A=LONG)), composite(BASE + "MapSerializerSnapshot", INT, of(B=LONG))),
        (map_of(of(A=LONG)), composite(BASE + "MapSerializerSnapshot", of(B=LONG))),
    ],
)
def test_snapshots_that_differ_otherwise_are_not_merged(first: bytes, other: bytes) -> None:
    assert together(first, other) is None
    assert together(other, first) is None
