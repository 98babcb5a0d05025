"""Finds parallelisms that suit an operator's key groups, and a max parallelism that suits its parallelism.

Each subtask owns consecutive key groups, and all own about the same number. If the parallelism does not divide the max
parallelism, some subtasks own one key group more than others, and the job is as slow as they are. Bytes may still be
uneven: a *hot* key group holds so many bytes that no parallelism can spread them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rescale.flink.key_groups import key_group_range
from rescale.insight.key_group_sizes import KeyGroupSizes, evenness
from rescale.planning.request.operator_shapes import good_max_parallelism

_HOT_SHARE = 0.5
"""Smallest size of a hot key group, as a share of a subtask's mean bytes."""

_HOT_FACTOR = 4
"""Smallest size of a hot key group, as a multiple of a key group's mean bytes."""

_MOST_HOT = 10

_FEW_KEYS = 100
"""Number of keys of a subtask above which chance changes its load by less than a tenth."""


@dataclass(frozen=True)
class HotKeyGroup:
    """A hot key group; `share` is its part of the operator's keyed bytes."""

    key_group: int
    bytes: int
    share: float


@dataclass(frozen=True)
class Candidate:
    """A parallelism, its `evenness`, and the least and most key groups that a subtask owns."""

    parallelism: int
    evenness: float
    least_key_groups: int
    most_key_groups: int


@dataclass(frozen=True)
class ShapeAdvice:
    """Advice for an operator at a `parallelism` and `max_parallelism`.

    `now` is the `evenness` of the snapshot at its own parallelism. `idle` is the share of the subtasks' total capacity
    that is unused while the subtasks with one key group more still work. `lower` and `upper` are the nearest
    parallelisms that divide the max parallelism (both are `parallelism` if it does), and `recommended` the nearer.
    `recommended_max_parallelism` is None if no other max parallelism is better. `exact` is false if bytes by key group
    are estimates. `hot` are the snapshot's hot key groups. `few_keys` is the estimated number of keys if there are so
    few that evenness depends on chance, else None.
    """

    operator_id: str
    label: str
    parallelism: int
    max_parallelism: int
    now: float
    idle: float
    lower: int
    upper: int
    recommended: int
    recommended_max_parallelism: int | None
    candidates: tuple[Candidate, ...]
    hot: tuple[HotKeyGroup, ...]
    exact: bool
    few_keys: int | None

    @property
    def requested(self) -> Candidate:
        """The candidate with the parallelism that the advice is for."""
        return next(candidate for candidate in self.candidates if candidate.parallelism == self.parallelism)


def shape_advice(
    operator_id: str,
    label: str,
    parallelism: int,
    other_parallelisms: Iterable[int],
    key_groups: KeyGroupSizes,
    evenness_now: float,
    hot_groups: Iterable[HotKeyGroup],
    key_count: int | None = None,
) -> ShapeAdvice:
    """Return the advice for `parallelism` over these key groups, compared with `other_parallelisms`.

    `key_count` is the estimated number of keys, None if unknown.
    """
    sizes = key_groups.sizes
    max_parallelism, cumulative_bytes = len(sizes), list(accumulate(sizes, initial=0))
    divisors = [number for number in range(1, max_parallelism + 1) if max_parallelism % number == 0]
    lower = max(number for number in divisors if number <= parallelism)
    upper = min(number for number in divisors if number >= parallelism)
    good_maximum = good_max_parallelism(parallelism, max_parallelism)
    compared_parallelisms = {
        parallelism,
        lower,
        upper,
        *(other for other in other_parallelisms if 1 <= other <= max_parallelism),
    }
    return ShapeAdvice(
        operator_id,
        label,
        parallelism,
        max_parallelism,
        evenness_now,
        idle=1 - max_parallelism / parallelism / -(-max_parallelism // parallelism),
        lower=lower,
        upper=upper,
        recommended=upper if upper - parallelism <= parallelism - lower else lower,
        recommended_max_parallelism=good_maximum if good_maximum != max_parallelism else None,
        candidates=tuple(_candidate(cumulative_bytes, number) for number in sorted(compared_parallelisms)),
        hot=tuple(hot_groups),
        exact=key_groups.exact,
        few_keys=key_count if key_count is not None and key_count < _FEW_KEYS * parallelism else None,
    )


def _candidate(cumulative_bytes: Sequence[int], parallelism: int) -> Candidate:
    """Return a candidate for this parallelism; `cumulative_bytes` is as for `evenness_over`."""
    max_parallelism = len(cumulative_bytes) - 1
    return Candidate(
        parallelism,
        evenness_over(cumulative_bytes, parallelism),
        max_parallelism // parallelism,
        -(-max_parallelism // parallelism),
    )


def evenness_over(cumulative_bytes: Sequence[int], parallelism: int) -> float:
    """Return the `evenness` of the subtasks' bytes.

    `cumulative_bytes` has the bytes before each key group, then the total.
    """
    max_parallelism = len(cumulative_bytes) - 1
    ranges = (key_group_range(max_parallelism, parallelism, subtask) for subtask in range(parallelism))
    return evenness(
        [cumulative_bytes[key_groups.last + 1] - cumulative_bytes[key_groups.first] for key_groups in ranges]
    )


def evenness_at(sizes: Sequence[int], parallelism: int) -> float:
    """Return the `evenness` of the subtasks' bytes at a parallelism, for key groups of these sizes."""
    return evenness_over(list(accumulate(sizes, initial=0)), parallelism)


def hot_key_groups(sizes: Sequence[int], parallelism: int) -> list[HotKeyGroup]:
    """Return at most `_MOST_HOT` hot key groups, the largest first."""
    total_size = sum(sizes)
    least_hot_bytes = max(_HOT_SHARE * total_size / parallelism, _HOT_FACTOR * total_size / len(sizes), 1)
    hot_groups = [
        HotKeyGroup(group, size, size / total_size) for group, size in enumerate(sizes) if size >= least_hot_bytes
    ]
    return sorted(hot_groups, key=lambda group: (-group.bytes, group.key_group))[:_MOST_HOT]
