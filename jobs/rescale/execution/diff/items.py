"""Elements, copies and whole key groups: each has a digest, and their digests are compared here.

There are as many as `_metadata` lists offsets, so all their digests fit where those fit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rescale.execution.diff.found import (
    MOST_SHOWN,
    ONLY_IN,
    OTHER_NUMBER,
    OTHER_VALUE,
    Amount,
    Difference,
    Side,
)
from rescale.execution.sources.byte_digests import MODULUS
from rescale.flink.metadata.handles import DistributionMode
from rescale.report.units import counted
from rescale.snapshot.locate import Extent

EVERYWHERE = (
    "one snapshot holds every element as often as the other and more: after a restore Flink gives all elements of a "
    "union state to every subtask, and each of them stores all"
)
GIVEN_ONE = (
    "one snapshot lacks copies that the other has: where the parallelism changes, Flink gives every subtask one of "
    "those that there are, and so does a rescale; if the one with all of them came from the other, nothing is lost"
)
ONLY_BYTES = (
    "heap framing fixes no order of entries: key groups that differ in bytes may hold the same; canonical savepoints "
    "tell"
)


class Item(NamedTuple):
    """`number` is that of the key group, or the element's among those of its state in the subtask."""

    digest: int
    subtask: int
    number: int
    extent: Extent


class Items(NamedTuple):
    """What the snapshots hold of one state."""

    a: list[Item]
    b: list[Item]

    @property
    def by_side(self) -> Iterator[tuple[Side, Item]]:
        """All of them, A's first."""
        return ((side, item) for side in Side for item in self[side])


class Compared(NamedTuple):
    a: Amount
    b: Amount
    differences: tuple[Difference, ...]
    differing: int
    remark: str | None = None


Describe = Callable[[Side, Item], str]
"""Names the content of an item."""


def compare_key_groups(items: Items, remark: str | None) -> Compared:
    """Key groups by number; `remark` is what is to be said of such that differ."""
    by_number: dict[int, tuple[list[Item], list[Item]]] = defaultdict(lambda: ([], []))
    for side, item in items.by_side:
        by_number[item.number][side].append(item)
    found = []
    for number, (a, b) in sorted(by_number.items()):
        if sorted(item.digest for item in a) != sorted(item.digest for item in b):
            what = OTHER_VALUE if a and b else ONLY_IN[bool(b)]
            found.append(Difference(what, {"key_group": str(number)}, _sizes(a), _sizes(b)))
    first = tuple(found[:MOST_SHOWN])
    return Compared(_amount(items.a), _amount(items.b), first, len(found), remark if found else None)


def compare_bags(items: Items, mode: DistributionMode, describe: Describe) -> Compared:
    """Elements of SPLIT_DISTRIBUTE and UNION states: the same ones as often, wherever they are stored."""
    a, b = (Counter(item.digest for item in side) for side in items)
    places = {item.digest: (side, item) for side, item in items.by_side}
    differing = sorted((digest for digest in places if a[digest] != b[digest]), key=lambda d: _place(places[d]))
    found = []
    for digest in differing[:MOST_SHOWN]:
        side, item = places[digest]
        what = OTHER_NUMBER if a[digest] and b[digest] else ONLY_IN[not a[digest]]
        name = {"element": describe(side, item), "subtask": str(item.subtask)}
        found.append(Difference(what, name, _times(a[digest]), _times(b[digest])))
    multiplied = bool(differing) and a.keys() == b.keys() and (a <= b or b <= a)
    remark = EVERYWHERE if multiplied and mode is DistributionMode.UNION else None
    return Compared(_amount(items.a), _amount(items.b), tuple(found), len(differing), remark)


def compare_copies(items: Items, parallelism: tuple[int, int], describe: Describe) -> Compared:
    """Copies of a BROADCAST state: the same set of them, and none is missing in a subtask."""
    places: dict[int, tuple[Side, Item]] = {}
    holders: tuple[dict[int, list[int]], dict[int, list[int]]] = (defaultdict(list), defaultdict(list))
    for side, item in items.by_side:
        places.setdefault(item.digest, (side, item))
        holders[side][item.digest].append(item.subtask)
    a, b = holders
    found = []
    for digest in sorted(places, key=lambda d: _place(places[d])):
        if bool(a.get(digest)) != bool(b.get(digest)):
            side, item = places[digest]
            name = {"copy": describe(side, item)}
            found.append(Difference(ONLY_IN[side], name, _subtasks(a.get(digest)), _subtasks(b.get(digest))))
    lost = _missing(items, parallelism)
    if lost is not None and items.a and items.b:
        found.insert(0, lost)
    remark = GIVEN_ONE if lost in found and parallelism[0] != parallelism[1] else None
    return Compared(_distinct(items.a), _distinct(items.b), tuple(found[:MOST_SHOWN]), len(found), remark)


def _missing(items: Items, parallelism: tuple[int, int]) -> Difference | None:
    """Whether subtasks lack a copy on one side that have one on the other."""
    without = [set(range(n)) - {item.subtask for item in side} for n, side in zip(parallelism, items, strict=True)]
    if without[0] == without[1] or (all(without) and parallelism[0] != parallelism[1]):
        return None
    a, b = (f"missing in {_subtasks(sorted(one))}" if one else "in every subtask" for one in without)
    return Difference(OTHER_NUMBER, {"copies": "by subtask"}, a, b)


def _amount(items: Sequence[Item]) -> Amount:
    return Amount(len(items), sum(item.digest for item in items) % MODULUS)


def _distinct(items: Sequence[Item]) -> Amount:
    digests = {item.digest for item in items}
    return Amount(len(digests), sum(digests) % MODULUS)


def _place(place: tuple[Side, Item]) -> tuple[int, int, int]:
    side, item = place
    return side, item.subtask, item.number


def _sizes(items: Iterable[Item]) -> str | None:
    return " and ".join(counted(item.extent.length, "byte") for item in items) or None


def _times(count: int) -> str | None:
    return counted(count, "time") if count else None


def _subtasks(subtasks: Sequence[int] | None) -> str | None:
    if not subtasks:
        return None
    shown = ", ".join(map(str, subtasks[:MOST_SHOWN]))
    return f"subtask{'s' if len(subtasks) > 1 else ''} {shown}{', …' if len(subtasks) > MOST_SHOWN else ''}"
