"""Which bytes go from which old subtask to which new one, by the key groups that they lie in.

A key group of the old maximum becomes, as the max parallelism does: itself; its number modulo a new maximum that
divides the old one; or any new one that leaves the same remainder by the greatest common divisor of both, each as
likely.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

from rescale.flink.key_groups import key_group_range, subtask_of_key_group

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class KeyedShape(NamedTuple):
    parallelism: int
    max_parallelism: int

    @property
    def starts(self) -> list[int]:
        """The first key group of every subtask, and the end."""
        ranges = (key_group_range(self.max_parallelism, self.parallelism, i) for i in range(self.parallelism))
        return [*(own.first for own in ranges), self.max_parallelism]

    def owner(self, key_group: int) -> int:
        return subtask_of_key_group(self.max_parallelism, self.parallelism, key_group)


class Flow(NamedTuple):
    """Key groups `first` to `last` of the old shape become those from `new_first` on, of one subtask each."""

    subtask: int
    new_subtask: int
    first: int
    last: int
    new_first: int


def loads(sizes: Sequence[int], parallelism: int) -> list[int]:
    """Bytes of every subtask."""
    ends = list(accumulate(sizes, initial=0))
    return [ends[end] - ends[first] for first, end in pairwise(KeyedShape(parallelism, len(sizes)).starts)]


def flows(old: KeyedShape, new: KeyedShape) -> Iterator[Flow]:
    """Runs of key groups that stay together; none where keys are hashed anew."""
    if old.max_parallelism % new.max_parallelism:
        return
    rounds = range(0, old.max_parallelism, new.max_parallelism)
    cuts = sorted({*old.starts, *(start + turn for turn in rounds for start in new.starts)})
    for first, end in pairwise(cut for cut in cuts if cut <= old.max_parallelism):
        new_first = first % new.max_parallelism
        yield Flow(old.owner(first), new.owner(new_first), first, end - 1, new_first)


def flow_matrix(sizes: Sequence[int], old: KeyedShape, new: KeyedShape, most: int) -> npt.NDArray[np.float64]:
    """Bytes from old subtasks (rows) to new ones (columns); of more than `most` several neighbours share a row."""
    import numpy as np  # which few pages need

    def places(shape: KeyedShape) -> npt.NDArray[np.int64]:
        """The row or column of every key group."""
        owners = np.arange(shape.max_parallelism) * shape.parallelism // shape.max_parallelism
        return owners * min(most, shape.parallelism) // shape.parallelism

    rows, columns = min(most, old.parallelism), min(most, new.parallelism)
    if old.max_parallelism % new.max_parallelism == 0:
        below = places(new)[np.arange(old.max_parallelism) % new.max_parallelism]
        cells = places(old) * columns + below
        return np.bincount(cells, np.asarray(sizes, float), rows * columns).astype(float).reshape(rows, columns)
    classes = gcd(old.max_parallelism, new.max_parallelism)
    held, spread = np.zeros((rows, classes)), np.zeros((classes, columns))
    np.add.at(held, (places(old), np.arange(old.max_parallelism) % classes), np.asarray(sizes, float))
    np.add.at(spread, (np.arange(new.max_parallelism) % classes, places(new)), classes / new.max_parallelism)
    return held @ spread
