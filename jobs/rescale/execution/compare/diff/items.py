"""Compares two snapshots by digests: one for each list element, broadcast copy and whole key group.

There are as many digests as offsets in `_metadata`, so they fit in memory whenever the offsets do.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rescale.execution.compare.diff.differences import MOST_SHOWN, ONLY_IN, OTHER_NUMBER, OTHER_VALUE, Side, amount
from rescale.execution.sources.byte_digests import MODULUS
from rescale.flink.metadata.handles import DistributionMode
from rescale.report.differences import ListedDifference, StateAmount
from rescale.snapshot.locate import Extent
from rescale.text.units import counted

REPEATED_ELEMENTS = (
    "one snapshot holds each element of the other several times: Flink restores all elements of a union state to every "
    "subtask, and each subtask then stores all of them"
)
MISSING_COPIES = (
    "some subtasks of one snapshot have no copy of the state: when the parallelism changes, Flink and Rescale give "
    "every subtask one of the existing copies, so no state is lost if the other snapshot was made from this one"
)
UNORDERED_ENTRIES = (
    "the heap backend writes the entries of a key group in any order, so key groups with different bytes may hold the "
    "same entries: to be sure, compare canonical savepoints"
)


class DigestedItem(NamedTuple):
    """Digest of a key group, list element or broadcast copy.

    `number` is the number of the key group, or the index of the element in its state and subtask.
    """

    digest: int
    subtask: int
    number: int
    extent: Extent


class DigestedItems(NamedTuple):
    """The digested items of one state in both snapshots."""

    a: list[DigestedItem]
    b: list[DigestedItem]

    @property
    def by_side(self) -> Iterator[tuple[Side, DigestedItem]]:
        """All items, each with its side; items of A come first."""
        return ((side, item) for side in Side for item in self[side])


class ItemComparison(NamedTuple):
    a: StateAmount
    b: StateAmount
    differences: tuple[ListedDifference, ...]
    difference_count: int
    remark: str | None = None


DescribeItem = Callable[[Side, DigestedItem], str]
"""Returns a text that names the content of an item."""


def compare_key_groups(groups: DigestedItems, remark: str | None) -> ItemComparison:
    """Compare key groups by number; `remark` is added if any differ."""
    items_by_number: dict[int, tuple[list[DigestedItem], list[DigestedItem]]] = defaultdict(lambda: ([], []))
    for side, item in groups.by_side:
        items_by_number[item.number][side].append(item)
    differences = []
    for number, (items_a, items_b) in sorted(items_by_number.items()):
        if sorted(item.digest for item in items_a) != sorted(item.digest for item in items_b):
            kind = OTHER_VALUE if items_a and items_b else ONLY_IN[bool(items_b)]
            differences.append(
                ListedDifference(kind, {"key_group": str(number)}, _sizes_text(items_a), _sizes_text(items_b))
            )
    first_differences = tuple(differences[:MOST_SHOWN])
    return ItemComparison(
        _amount(groups.a), _amount(groups.b), first_differences, len(differences), remark if differences else None
    )


def compare_bags(elements: DigestedItems, mode: DistributionMode, describe: DescribeItem) -> ItemComparison:
    """Compare elements of SPLIT_DISTRIBUTE and UNION states as bags, wherever they are stored."""
    counts_a, counts_b = (Counter(item.digest for item in side) for side in elements)
    item_by_digest = {item.digest: (side, item) for side, item in elements.by_side}
    differing_digests = sorted(
        (digest for digest in item_by_digest if counts_a[digest] != counts_b[digest]),
        key=lambda d: _sort_key(item_by_digest[d]),
    )
    differences = []
    for digest in differing_digests[:MOST_SHOWN]:
        side, item = item_by_digest[digest]
        kind = OTHER_NUMBER if counts_a[digest] and counts_b[digest] else ONLY_IN[not counts_a[digest]]
        name_parts = {"element": describe(side, item), "subtask": str(item.subtask)}
        differences.append(
            ListedDifference(kind, name_parts, _occurrences_text(counts_a[digest]), _occurrences_text(counts_b[digest]))
        )
    is_multiplied = (
        bool(differing_digests)
        and counts_a.keys() == counts_b.keys()
        and (counts_a <= counts_b or counts_b <= counts_a)
    )
    remark = REPEATED_ELEMENTS if is_multiplied and mode is DistributionMode.UNION else None
    return ItemComparison(_amount(elements.a), _amount(elements.b), tuple(differences), len(differing_digests), remark)


def compare_copies(copies: DigestedItems, parallelisms: tuple[int, int], describe: DescribeItem) -> ItemComparison:
    """Compare copies of a BROADCAST state.

    Both sides need the same distinct copies, and the same subtasks with a copy (`_missing_copies`).
    """
    item_by_digest: dict[int, tuple[Side, DigestedItem]] = {}
    subtasks_by_digest: tuple[dict[int, list[int]], dict[int, list[int]]] = (defaultdict(list), defaultdict(list))
    for side, item in copies.by_side:
        item_by_digest.setdefault(item.digest, (side, item))
        subtasks_by_digest[side][item.digest].append(item.subtask)
    subtasks_a, subtasks_b = subtasks_by_digest
    differences = []
    for digest in sorted(item_by_digest, key=lambda d: _sort_key(item_by_digest[d])):
        if bool(subtasks_a.get(digest)) != bool(subtasks_b.get(digest)):
            side, item = item_by_digest[digest]
            name_parts = {"copy": describe(side, item)}
            differences.append(
                ListedDifference(
                    ONLY_IN[side],
                    name_parts,
                    _subtasks_text(subtasks_a.get(digest)),
                    _subtasks_text(subtasks_b.get(digest)),
                )
            )
    missing_copies = _missing_copies(copies, parallelisms)
    if missing_copies is not None and copies.a and copies.b:
        differences.insert(0, missing_copies)
    remark = MISSING_COPIES if missing_copies in differences and parallelisms[0] != parallelisms[1] else None
    return ItemComparison(
        _distinct_amount(copies.a),
        _distinct_amount(copies.b),
        tuple(differences[:MOST_SHOWN]),
        len(differences),
        remark,
    )


def _missing_copies(copies: DigestedItems, parallelisms: tuple[int, int]) -> ListedDifference | None:
    """Return the difference if the subtasks that lack a copy are not the same in A and B; else None.

    If both snapshots lack copies and have different parallelisms, their subtasks cannot be compared, so there is no
    difference.
    """
    lacking_by_side = [
        set(range(subtask_count)) - {item.subtask for item in side}
        for subtask_count, side in zip(parallelisms, copies, strict=True)
    ]
    if lacking_by_side[0] == lacking_by_side[1] or (all(lacking_by_side) and parallelisms[0] != parallelisms[1]):
        return None
    text_a, text_b = (
        f"missing in {_subtasks_text(sorted(subtasks))}" if subtasks else "in every subtask"
        for subtasks in lacking_by_side
    )
    return ListedDifference(OTHER_NUMBER, {"copies": "by subtask"}, text_a, text_b)


def _amount(items: Sequence[DigestedItem]) -> StateAmount:
    return amount(len(items), sum(item.digest for item in items) % MODULUS)


def _distinct_amount(items: Sequence[DigestedItem]) -> StateAmount:
    digests = {item.digest for item in items}
    return amount(len(digests), sum(digests) % MODULUS)


def _sort_key(sided_item: tuple[Side, DigestedItem]) -> tuple[int, int, int]:
    side, item = sided_item
    return side, item.subtask, item.number


def _sizes_text(items: Iterable[DigestedItem]) -> str | None:
    return " and ".join(counted(item.extent.length, "byte") for item in items) or None


def _occurrences_text(count: int) -> str | None:
    return counted(count, "time") if count else None


def _subtasks_text(subtasks: Sequence[int] | None) -> str | None:
    if not subtasks:
        return None
    listed_text = ", ".join(map(str, subtasks[:MOST_SHOWN]))
    return f"subtask{'s' if len(subtasks) > 1 else ''} {listed_text}{', …' if len(subtasks) > MOST_SHOWN else ''}"
