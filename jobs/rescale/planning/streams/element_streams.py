"""Plans the new streams of operator state; `redistribution` assigns the elements to the new subtasks."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.flink.operator_state import merge_operator_state_headers, write_operator_state_header
from rescale.flink.redistribution import redistribute
from rescale.flink.slot import OPERATOR_SLOTS, Slot
from rescale.plan.new_streams import CheckedElements, CopiedElements, StateElements
from rescale.plan.pieces import Literals, Piece, merge_adjacent, piece_of
from rescale.planning.streams.inline import InlineBudget
from rescale.snapshot.model import ElementStream, Operator
from rescale.snapshot.reading.element_layouts import extents_of_share, layouts_of
from rescale.text.errors import UnsupportedError, located


def plan_elements(
    operator: Operator, new_parallelism: int, literals: Literals, budget: InlineBudget
) -> list[CopiedElements | CheckedElements]:
    """Return the new streams of managed and raw operator state of one operator at `new_parallelism`."""
    planned_streams: list[CopiedElements | CheckedElements] = []
    for slot in OPERATOR_SLOTS:
        sources = operator.element_streams_in(slot)
        if not sources:
            continue
        source_by_subtask = {source.subtask: source for source in sources}
        layouts = layouts_of(operator, sources)
        is_compressed = any(source.compressed for source in sources)
        keeps_parallelism = new_parallelism == operator.parallelism
        shared_header = None if keeps_parallelism else common_header(operator, sources, literals)
        for subtask, shares in enumerate(redistribute(layouts, new_parallelism)):
            if keeps_parallelism and subtask not in source_by_subtask:
                continue
            header = shared_header or common_header(operator, [source_by_subtask[subtask]], literals)
            share_extents = [(share, extents_of_share(share, source_by_subtask)) for share in shares]
            pieces = merge_adjacent([header, *(piece_of(extent) for _, extents in share_extents for extent in extents)])
            is_inline = budget.try_take(sum(piece.length for piece in pieces))
            elements = tuple(
                StateElements(share.name, share.mode, tuple(extent.length for extent in extents))
                for share, extents in share_extents
            )
            planned_streams.append(
                CheckedElements(subtask=subtask, pieces=pieces, inline=is_inline, states=elements)
                if slot is Slot.OPERATOR and is_compressed
                else CopiedElements(slot=slot, subtask=subtask, pieces=pieces, inline=is_inline, states=elements)
            )
    return planned_streams


def common_header(operator: Operator, old_streams: Sequence[ElementStream], literals: Literals) -> Piece:
    """Return a header for the elements of all `old_streams`: the header that they share, or a new one with all states.

    Raw state has no header, so its piece is empty. Raises `UnsupportedError` or `SnapshotError` if the headers of the
    old streams cannot be merged.
    """
    first_stream = old_streams[0]
    if first_stream.has_stored_header and all(old_stream.header == first_stream.header for old_stream in old_streams):
        return piece_of(first_stream.extent.part(0, len(first_stream.header)))
    parsed_headers = [old_stream.parsed for old_stream in old_streams if old_stream.parsed is not None]
    if len(parsed_headers) < len(old_streams):
        raise UnsupportedError(
            "the subtasks registered different operator states, and an unknown serializer hides the state names",
            operator=operator.label,
            advice="take a savepoint after every subtask has registered all its states (in initializeState())",
        )
    with located(operator=operator.label):
        return literals.add(write_operator_state_header(merge_operator_state_headers(parsed_headers)))
