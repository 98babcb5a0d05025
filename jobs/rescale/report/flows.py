"""Computes which key groups, and so how many bytes, move from each old subtask to each new one.

If the max parallelism stays, a record keeps its key group. If the new maximum divides the old one, the new key group is
the old one modulo the new maximum. Any other maximum spreads the records of a key group over many new key groups, so
there are no flows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

from rescale.flink.key_groups import key_group_range, subtask_of_key_group

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class KeyedShape(NamedTuple):
    """The parallelism and max parallelism of an operator with keyed state."""

    parallelism: int
    max_parallelism: int

    @property
    def starts(self) -> list[int]:
        """First key group of every subtask, followed by the max parallelism."""
        ranges = (key_group_range(self.max_parallelism, self.parallelism, i) for i in range(self.parallelism))
        return [*(groups.first for groups in ranges), self.max_parallelism]

    def owner(self, key_group: int) -> int:
        """Return the subtask that owns a key group."""
        return subtask_of_key_group(self.max_parallelism, self.parallelism, key_group)


class Flow(NamedTuple):
    """Adjacent key groups that move together from an old subtask to a new one.

    Key groups `first_group` to `last_group` of `subtask` become those of `new_subtask` from `new_first_group` on.
    """

    subtask: int
    new_subtask: int
    first_group: int
    last_group: int
    new_first_group: int


def subtask_loads(sizes: Sequence[int], parallelism: int) -> list[int]:
    """Return the bytes of every subtask; `sizes` are the bytes of every key group."""
    cumulative_bytes = list(accumulate(sizes, initial=0))
    return [
        cumulative_bytes[end] - cumulative_bytes[first]
        for first, end in pairwise(KeyedShape(parallelism, len(sizes)).starts)
    ]


def groups_stay_together(old: KeyedShape, new: KeyedShape) -> bool:
    """Return whether all records of a key group have the same new key group."""
    return old.max_parallelism % new.max_parallelism == 0


def flows(old: KeyedShape, new: KeyedShape) -> Iterator[Flow]:
    """Yield the flows of adjacent key groups; none if the records of a key group get different new key groups."""
    if not groups_stay_together(old, new):
        return
    offsets = range(0, old.max_parallelism, new.max_parallelism)
    cuts = sorted({*old.starts, *(start + offset for offset in offsets for start in new.starts)})
    for first, end in pairwise(cut for cut in cuts if cut <= old.max_parallelism):
        new_first = first % new.max_parallelism
        yield Flow(old.owner(first), new.owner(new_first), first, end - 1, new_first)


def flow_matrix(sizes: Sequence[int], old: KeyedShape, new: KeyedShape, most_lines: int) -> npt.NDArray[np.float64]:
    """Return the bytes that move from each old subtask (row) to each new one (column), for shapes that have `flows`.

    `sizes` are the bytes of every old key group. The matrix has at most `most_lines` rows and columns: if there
    are more subtasks, neighbours share one.
    """
    import numpy as np  # slow to import, and few pages need it

    def matrix_indices(shape: KeyedShape) -> npt.NDArray[np.int64]:
        """Return the row or column of every key group."""
        owners = np.arange(shape.max_parallelism) * shape.parallelism // shape.max_parallelism
        return owners * min(most_lines, shape.parallelism) // shape.parallelism

    row_count, column_count = min(most_lines, old.parallelism), min(most_lines, new.parallelism)
    new_indices = matrix_indices(new)[np.arange(old.max_parallelism) % new.max_parallelism]
    cell_indices = matrix_indices(old) * column_count + new_indices
    return (
        np.bincount(cell_indices, np.asarray(sizes, float), row_count * column_count)
        .astype(float)
        .reshape(row_count, column_count)
    )
