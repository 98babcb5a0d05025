"""Which parallelisms suit an operator's key groups, and which max parallelism would suit its parallelism.

Key groups are dealt in runs as even as integers allow: where the parallelism does not divide the max parallelism,
some subtasks own one key group more than others, and the job is as slow as they are. Within that, bytes may be
anywhere: a *hot* key group holds so many that no parallelism can spread them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rescale.flink.key_groups import key_group_range
from rescale.insight.key_group_sizes import KeyGroupSizes, evenness
from rescale.planning.asked.good_maximum import good_max_parallelism

_HOT_SHARE = 0.5
"""A hot key group has at least this part of what a subtask holds in the mean …"""

_HOT_FACTOR = 4
"""… and this many times what a key group holds in the mean."""

_MOST_HOT = 10

_FEW_KEYS = 100
"""A subtask with fewer keys than so many has, by chance alone, more or less than others by a tenth and more."""


@dataclass(frozen=True)
class HotKeyGroup:
    """`share` is its part of the operator's keyed bytes."""

    key_group: int
    bytes: int
    share: float


@dataclass(frozen=True)
class Candidate:
    """A parallelism: worst ÷ mean of its subtasks' bytes, and how many key groups they own, at least and at most."""

    parallelism: int
    evenness: float
    least_key_groups: int
    most_key_groups: int


@dataclass(frozen=True)
class ShapeAdvice:
    """For one operator at a `parallelism` and `max_parallelism`; `now` is worst ÷ mean of the snapshot as it is.

    `idle` is the part of all subtasks' capacity that waits for those with most key groups. `lower` and `upper` are the
    parallelisms on both sides that divide the max parallelism (both are the asked one if that does); `recommended` is
    the nearer one. `recommended_max_parallelism` is None where no other is better. `exact` is false where bytes by key
    group are not known but to be expected. `hot` are key groups of the snapshot. `few_keys` is how many keys there are,
    about, where they are so few that evenness is chance.
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
    def asked(self) -> Candidate:
        """The parallelism that the advice is for."""
        return next(candidate for candidate in self.candidates if candidate.parallelism == self.parallelism)


def shape_advice(
    operator_id: str,
    label: str,
    parallelism: int,
    others: Iterable[int],
    key_groups: KeyGroupSizes,
    now: float,
    hot: Iterable[HotKeyGroup],
    keys: int | None = None,
) -> ShapeAdvice:
    """Advice for a shape of `parallelism` and as many key groups as have sizes; `others` are compared with it.

    `keys` is how many there are, about, as far as that is known.
    """
    sizes = key_groups.sizes
    maximum, ends = len(sizes), list(accumulate(sizes, initial=0))
    divisors = [number for number in range(1, maximum + 1) if maximum % number == 0]
    lower = max(number for number in divisors if number <= parallelism)
    upper = min(number for number in divisors if number >= parallelism)
    good = good_max_parallelism(parallelism, maximum)
    compared = {parallelism, lower, upper, *(other for other in others if 1 <= other <= maximum)}
    return ShapeAdvice(
        operator_id,
        label,
        parallelism,
        maximum,
        now,
        idle=1 - maximum / parallelism / -(-maximum // parallelism),
        lower=lower,
        upper=upper,
        recommended=upper if upper - parallelism <= parallelism - lower else lower,
        recommended_max_parallelism=good if good != maximum else None,
        candidates=tuple(_candidate(ends, number) for number in sorted(compared)),
        hot=tuple(hot),
        exact=key_groups.exact,
        few_keys=keys if keys is not None and keys < _FEW_KEYS * parallelism else None,
    )


def _candidate(ends: Sequence[int], parallelism: int) -> Candidate:
    """`ends` are the sums of the bytes of all key groups before each, and of all."""
    maximum = len(ends) - 1
    return Candidate(parallelism, _evenness(ends, parallelism), maximum // parallelism, -(-maximum // parallelism))


def _evenness(ends: Sequence[int], parallelism: int) -> float:
    maximum = len(ends) - 1
    ranges = (key_group_range(maximum, parallelism, subtask) for subtask in range(parallelism))
    return evenness([ends[own.last + 1] - ends[own.first] for own in ranges])


def evenness_at(sizes: Sequence[int], parallelism: int) -> float:
    """Worst ÷ mean of the subtasks' bytes, if key groups have these sizes."""
    return _evenness(list(accumulate(sizes, initial=0)), parallelism)


def hot_key_groups(sizes: Sequence[int], parallelism: int) -> list[HotKeyGroup]:
    """The largest ones first, `_MOST_HOT` at most."""
    total = sum(sizes)
    least = max(_HOT_SHARE * total / parallelism, _HOT_FACTOR * total / len(sizes), 1)
    hot = [HotKeyGroup(group, size, size / total) for group, size in enumerate(sizes) if size >= least]
    return sorted(hot, key=lambda group: (-group.bytes, group.key_group))[:_MOST_HOT]
