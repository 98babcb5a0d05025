"""Tells users who have not asked for a shape yet which state of a snapshot a run would refuse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from rescale.flink.keyed.heap.heap_entries import can_delimit_entries
from rescale.plan.pieces import Literals
from rescale.planning.refusals import refuse_changelog, refuse_state_names, refuse_unreadable_state
from rescale.planning.request.result_files import Format
from rescale.planning.streams.element_streams import common_header
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.errors import SnapshotError, UnsupportedError, error_to_show
from rescale.text.names import first_of

_MOST_NAMED = 5
_REFUSED_ALWAYS = "a run refuses this unless the operator is dropped"
_REFUSED_IF_JOINED = "a run refuses this if it joins state of these subtasks, or reads their records"


def obstacles(snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each reason why a run would refuse operators.

    A run refuses some operators always, others only if it joins state of their subtasks or reads their records. Reads
    no files. Yields nothing if files are missing, because headers then lack what these files describe.
    """
    operators_by_reason = defaultdict[tuple[str, str], list[tuple[str, str | None]]](list)
    for operator in () if snapshot.missing_files else snapshot.operators:
        consequence = _REFUSED_ALWAYS
        try:
            refuse_unreadable_state(operator)
            refuse_changelog(operator, Format.CANONICAL)
            refuse_state_names(operator, Format.KEEP)
            consequence = _REFUSED_IF_JOINED
            _refuse_unmergeable_headers(operator)
        except (SnapshotError, UnsupportedError) as error:
            state_text = f", state {error.state}" if error.state else ""
            reason = (f"{error.what}{state_text}", f"{consequence}: {error_to_show(error).advice}")
            operators_by_reason[reason].append((operator.label, error.found))
    for (problem, remedy), operators in operators_by_reason.items():
        (_, example), labels = operators[0], first_of([label for label, _ in operators], _MOST_NAMED)
        such_as = "such as " if len(operators) > 1 else ""
        yield f"{labels}: {problem}" + (f" ({such_as}{example})" if example else "") + f"; {remedy}"


def _refuse_unmergeable_headers(operator: Operator) -> None:
    """Raise an error if a new subtask cannot get state of all old ones, because their headers cannot be merged."""
    moves_whole_groups = not all(can_delimit_entries(stream.parsed) for stream in operator.heap_streams)
    header_planner = HeaderPlanner(operator.label, Literals())
    if operator.managed_keyed:
        header_planner.plan(
            operator.managed_keyed, omitted_states=operator.dropped_states, moves_whole_groups=moves_whole_groups
        )
    if operator.heap_timers:
        header_planner.plan((), operator.heap_timers)
    if operator.element_streams:
        common_header(operator, operator.element_streams, Literals())
