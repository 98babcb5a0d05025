"""Figures of an operator's key groups: owners before and after, bytes, and moves between subtasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from rescale.insight.shapes import HotKeyGroup
from rescale.report.detail import DetailLevel
from rescale.report.figures import KeyGroupMap, Mark, Matrix, Ribbon, Share, Strip
from rescale.report.flows import KeyedShape, flow_matrix, flows, groups_stay_together, subtask_loads
from rescale.report.page import Figure, Table, table
from rescale.report.sections.keyed_operator import KeyedOperator, KeyedSide
from rescale.report.sections.loads import MOST_DRAWN_SUBTASKS, fullest, group_counts_text
from rescale.text.units import counted, human_bytes

_MOST_CELLS = 512
"""Largest number of cells of a strip: a screen does not show more."""

_SHADE_STEPS = 24
_FULL_SHADE = 3
"""A cell has the darkest shade if it has at least this many times the mean bytes of a cell."""

_MOST_MATRIX_LINES = 64


def key_group_map(operator: KeyedOperator, detail: DetailLevel) -> Figure:
    """Return the map of an operator's key groups, before and, for a plan, after."""
    old, new = operator.old, operator.new
    keeps_maximum = new is None or new.shape.max_parallelism == old.shape.max_parallelism
    hot_tooltips = {group.key_group: _hot_text(group) for group in operator.hot}
    strip_before = _strip(old, detail, hot_tooltips)
    sentences = [f"{side.name}: {_shape_text(side.shape)}{_expected_note(side)}" for side in operator.sides]
    ribbons: tuple[Ribbon, ...] = ()
    if new is not None:
        sentences.append(_moved_bytes_sentence(old, new))
        ribbons = tuple(_ribbons(old, new))
    drawing = KeyGroupMap(
        strip_before,
        ribbons if len(ribbons) <= detail.most_ribbons else (),
        _strip(new, detail, hot_tooltips if keeps_maximum else {}) if new is not None else None,
    )
    sentences += _hot_summary(operator.hot)
    title = "Key groups before and after" if new is not None else "Key groups"
    return Figure(title, f"{'. '.join(sentences)}.", drawing, _subtasks_table(operator, detail), "subtasks")


def needs_matrix(old: KeyedSide, new: KeyedSide, detail: DetailLevel) -> bool:
    """Return whether a matrix shows the moves, because there are too many for ribbons; never for a rehash."""
    if not groups_stay_together(old.shape, new.shape):
        return False
    if max(old.shape.parallelism, new.shape.parallelism) > MOST_DRAWN_SUBTASKS:
        return True
    return sum(1 for _ in flows(old.shape, new.shape)) > detail.most_ribbons


def moves_matrix(old: KeyedSide, new: KeyedSide, detail: DetailLevel) -> Figure:
    """Return the matrix of bytes that move between subtasks; if there are many, neighbours share a row or column."""
    matrix = flow_matrix(old.sizes, old.shape, new.shape, _MOST_MATRIX_LINES)
    darkest = float(matrix.max()) or 1.0
    shades = tuple(tuple(_shade(float(cell) / darkest) for cell in row) for row in matrix)
    largest_cells = sorted(
        ((float(cell), i, j) for i, row in enumerate(matrix) for j, cell in enumerate(row) if cell), reverse=True
    )
    rows = [
        (
            _subtasks_of_line(i, old.shape, len(matrix)),
            _subtasks_of_line(j, new.shape, len(matrix[0])),
            human_bytes(cell),
        )
        for cell, i, j in largest_cells[: detail.most_rows]
    ]
    caption = f"Bytes from old subtasks (a row each) to new ones (a column each). {_moved_bytes_sentence(old, new)}."
    drawing = Matrix(_axis_label("old", old.shape), _axis_label("new", new.shape), shades)
    numbers = table(("from subtask", "to subtask", "bytes"), rows)
    return Figure("What moves where", caption, drawing, numbers, "the largest moves")


def _axis_label(side_name: str, shape: KeyedShape) -> str:
    """Return the label of an axis of the matrix; `side_name` is old or new."""
    subtasks_per_line = -(-shape.parallelism // _MOST_MATRIX_LINES)
    per_line_text = f", up to {subtasks_per_line} a line" if subtasks_per_line > 1 else ""
    return f"{side_name}: {counted(shape.parallelism, 'subtask')}{per_line_text}"


def _strip(side: KeyedSide, detail: DetailLevel, hot_tooltips: dict[int, str]) -> Strip:
    group_count = len(side.sizes)
    cells = _resampled(side.sizes, min(group_count, _MOST_CELLS))
    mean = sum(cells) / len(cells) or 1.0
    return Strip(
        f"{side.name}: {_shape_text(side.shape)}",
        tuple(_subtask_shares(side) if detail.most_parts and side.shape.parallelism <= MOST_DRAWN_SUBTASKS else ()),
        tuple(_shade(cell / mean / _FULL_SHADE) for cell in cells),
        tuple(_part_shares(side.sizes, min(group_count, detail.most_parts)) if detail.most_parts else ()),
        tuple(Mark((group + 0.5) / group_count, tooltip) for group, tooltip in hot_tooltips.items()),
    )


def _subtask_shares(side: KeyedSide) -> Iterator[Share]:
    sizes, cumulative_bytes = side.sizes, list(accumulate(side.sizes, initial=0))
    for subtask, (first, end) in enumerate(pairwise(side.shape.starts)):
        size_text = human_bytes(cumulative_bytes[end] - cumulative_bytes[first])
        tooltip = f"subtask {subtask}: key groups {_range_text(first, end)}, {size_text}"
        yield Share(first / len(sizes), end / len(sizes), str(subtask), tooltip)


def _part_shares(sizes: Sequence[int], part_count: int) -> Iterator[Share]:
    cumulative_bytes = list(accumulate(sizes, initial=0))
    cuts = [part * len(sizes) // part_count for part in range(part_count + 1)]
    for first, end in pairwise(cuts):
        key_groups = f"key group{'s' if end - first > 1 else ''} {_range_text(first, end)}"
        tooltip = f"{key_groups}: {human_bytes(cumulative_bytes[end] - cumulative_bytes[first])}"
        yield Share(first / len(sizes), end / len(sizes), "", tooltip)


def _range_text(first: int, end: int) -> str:
    return str(first) if end - first == 1 else f"{first}-{end - 1}"


def _resampled(sizes: Sequence[int], cell_count: int) -> list[float]:
    """Return the bytes of `cell_count` cells, each of which covers an equal part of the key groups."""
    if len(sizes) == cell_count:
        return [*map(float, sizes)]
    cumulative_bytes = list(accumulate(map(float, sizes), initial=0.0))

    def bytes_before(cell: int) -> float:
        whole_groups, remainder = divmod(cell * len(sizes), cell_count)
        return cumulative_bytes[whole_groups] + (remainder / cell_count * sizes[whole_groups] if remainder else 0.0)

    return [bytes_before(cell + 1) - bytes_before(cell) for cell in range(cell_count)]


def _shade(fraction: float) -> int:
    """Return the shade for a fraction of the darkest shade, in a few steps; any fraction above 0 is visible."""
    if fraction <= 0:
        return 0
    return 255 * max(1, round(min(fraction, 1.0) * _SHADE_STEPS)) // _SHADE_STEPS


def _ribbons(old: KeyedSide, new: KeyedSide) -> Iterator[Ribbon]:
    """Yield a ribbon for each move; none for a rehash, or if there are too many subtasks to draw."""
    if max(old.shape.parallelism, new.shape.parallelism) > MOST_DRAWN_SUBTASKS:
        return
    max_parallelism, new_max_parallelism = old.shape.max_parallelism, new.shape.max_parallelism
    cumulative_bytes = list(accumulate(old.sizes, initial=0))
    for flow in flows(old.shape, new.shape):
        length, size = (
            flow.last_group + 1 - flow.first_group,
            cumulative_bytes[flow.last_group + 1] - cumulative_bytes[flow.first_group],
        )
        yield Ribbon(
            flow.first_group / max_parallelism,
            (flow.last_group + 1) / max_parallelism,
            flow.new_first_group / new_max_parallelism,
            (flow.new_first_group + length) / new_max_parallelism,
            flow.subtask == flow.new_subtask,
            flow.new_subtask % 2 == 1,
            f"subtask {flow.subtask} to {flow.new_subtask}: {counted(length, 'key group')}, {human_bytes(size)}",
        )


def _moved_bytes_sentence(old: KeyedSide, new: KeyedSide) -> str:
    if old.shape == new.shape:
        return "Every key group stays with its subtask"
    if not groups_stay_together(old.shape, new.shape):
        return "Every key is hashed again, so nearly every old subtask has records for every new one"
    cumulative_bytes = list(accumulate(old.sizes, initial=0))
    moving_flows = [flow for flow in flows(old.shape, new.shape) if flow.subtask != flow.new_subtask]
    size = sum(cumulative_bytes[flow.last_group + 1] - cumulative_bytes[flow.first_group] for flow in moving_flows)
    return f"{human_bytes(size)} of {human_bytes(old.total)} go to another subtask"


def _subtasks_table(operator: KeyedOperator, detail: DetailLevel) -> Table:
    rows: list[tuple[object, ...]] = []
    for side in operator.sides:
        shown_loads = sorted(fullest(subtask_loads(side.sizes, side.shape.parallelism), detail.most_rows))
        ranges = list(pairwise(side.shape.starts))
        rows += [
            (side.name, subtask, _range_text(*ranges[subtask]), human_bytes(size)) for subtask, size in shown_loads
        ]
    return table(("", "subtask", "key groups", "keyed state"), rows)


def _shape_text(shape: KeyedShape) -> str:
    each_text = group_counts_text(shape.max_parallelism, shape.parallelism)
    return f"{counted(shape.parallelism, 'subtask')} of {each_text} key groups, {shape.max_parallelism:,} in all"


def _hot_text(group: HotKeyGroup) -> str:
    return f"hot key group {group.key_group}: {human_bytes(group.bytes)}, {group.share:.0%} of the keyed state"


def _hot_summary(hot_groups: Sequence[HotKeyGroup]) -> list[str]:
    if not hot_groups:
        return []
    hottest_text = ", ".join(f"{group.key_group} ({group.share:.0%})" for group in hot_groups[:5])
    return [f"Hot, and marked: {hottest_text}{' and more' if len(hot_groups) > 5 else ''}"]


def _expected_note(side: KeyedSide) -> str:
    return "" if side.is_exact else ", bytes expected"


def _subtasks_of_line(line: int, shape: KeyedShape, line_count: int) -> str:
    """Return the numbers of the subtasks that share a row or column of the matrix."""
    first, end = -(-line * shape.parallelism // line_count), -(-(line + 1) * shape.parallelism // line_count)
    return _range_text(first, end)
