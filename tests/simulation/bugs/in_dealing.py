"""Bugs in the assignment of key groups, elements and records, and in the new `_metadata`."""

# ruff: noqa: ARG001, ARG005 (a replacement takes the arguments of the replaced function)

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rescale.execution.rekeying import rekeying_run
from rescale.execution.rekeying.totals import sum_sent_sizes
from rescale.execution.rekeying.write_ranges import plan_write_ranges
from rescale.execution.writers import new_handles
from rescale.flink.key_groups import KeyGroupRange, key_group_range
from rescale.flink.keyed.new_key_groups import NewKeyGroups
from rescale.flink.keys.java_hash import key_groups_of_hashes
from rescale.flink.metadata.checkpoint_metadata import OperatorState, SubtaskState
from rescale.flink.metadata.handles import DistributionMode, KeyGroupsHandle, OperatorHandle
from rescale.flink.redistribution import ElementRun, StateShare, redistribute
from rescale.plan.pieces import merge_adjacent, split
from rescale.planning.streams import element_streams, key_group_streams
from rescale.planning.streams.key_group_owners import owners_of
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.runstate import candidate
from rescale.snapshot.reading.element_layouts import extents_of_share
from simulation.bugs.planting import Bug, Planter, attribute_planter, function_planter, with_changed_result


def _cut_by_floors(max_parallelism: int, parallelism: int, subtask: int) -> KeyGroupRange:
    """Round the bounds of key-group ranges down, where Flink rounds them up."""
    return KeyGroupRange(subtask * max_parallelism // parallelism, (subtask + 1) * max_parallelism // parallelism - 1)


def _cut_backwards(max_parallelism: int, parallelism: int, subtask: int) -> KeyGroupRange:
    return key_group_range(max_parallelism, parallelism, parallelism - 1 - subtask)


def _range_with_shifts(first: int, last: int) -> Callable[..., KeyGroupRange]:
    return with_changed_result(key_group_range, lambda own: KeyGroupRange(own.first + first, own.last + last))


def _with_changed_shares(change: Callable[[StateShare, int], StateShare]) -> Callable[..., Any]:
    """Return a replacement of `redistribute` that changes each state's share of each subtask."""

    def redistribute_changed(old: Any, parallelism: int) -> Any:
        return [[change(share, i) for share in shares] for i, shares in enumerate(redistribute(old, parallelism))]

    return redistribute_changed


def _with_runs(share: StateShare, runs: tuple[ElementRun, ...]) -> StateShare:
    return replace(share, runs=runs)


def _without_first_run(share: StateShare, subtask: int) -> StateShare:
    return _with_runs(share, share.runs[1:]) if share.mode is not DistributionMode.BROADCAST else share


def _without_last_element(share: StateShare, subtask: int) -> StateShare:
    if not share.runs or share.runs[-1].count < 2:
        return share
    return _with_runs(share, (*share.runs[:-1], replace(share.runs[-1], count=share.runs[-1].count - 1)))


def _with_elements_doubled(share: StateShare, subtask: int) -> StateShare:
    """Double the runs of a UNION state, as if each subtask had stored all elements that Flink restored to it."""
    return _with_runs(share, share.runs * 2) if share.mode is DistributionMode.UNION else share


def _with_one_copy(share: StateShare, subtask: int) -> StateShare:
    return _with_runs(share, ()) if share.mode is DistributionMode.BROADCAST and subtask else share


def _cut_one_element_early(share: StateShare, subtask: int) -> StateShare:
    return _with_runs(share, tuple(replace(run, first=max(0, run.first - 1)) for run in share.runs))


def _all_to_first_subtask(old: Any, parallelism: int) -> Any:
    shares = redistribute(old, parallelism)
    if parallelism == len(old):
        return shares
    for state_index, share in enumerate(shares[0]):
        if share.mode is DistributionMode.SPLIT_DISTRIBUTE:
            shares[0][state_index] = _with_runs(
                share, tuple(run for subtask_shares in shares for run in subtask_shares[state_index].runs)
            )
            for subtask_shares in shares[1:]:
                subtask_shares[state_index] = _with_runs(subtask_shares[state_index], ())
    return shares


def _merge_equal_elements(share: Any, by_subtask: Any) -> Any:
    """Merge equal elements of a UNION state; elements of equal length count as equal."""
    extents = extents_of_share(share, by_subtask)
    if share.mode is not DistributionMode.UNION:
        return extents
    return list({extent.length: extent for extent in extents}.values())


def _with_neighbours_in_any_file(given_pieces: Any) -> Any:
    pieces = [piece for piece in given_pieces if piece.length]
    for i in range(1, len(pieces)):
        previous_piece, piece = pieces[i - 1], pieces[i]
        if (
            previous_piece.file is not None
            and piece.file is not None
            and previous_piece.start + previous_piece.length == piece.start
        ):
            pieces[i] = piece._replace(file=previous_piece.file)
    return merge_adjacent(pieces)


def _owners_off_by_one(operator: Any, sources: Any) -> Any:
    """Return the owners of key groups, but give every fifth key group the owner of the previous one."""
    owners = owners_of(operator, sources)
    return {group: owners.get(group - 1, owner) if group % 5 == 4 else owner for group, owner in owners.items()}


def _with_changed_groups(change: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    original = NewKeyGroups.assign

    def assign_changed(self: Any, records: Any) -> Any:
        groups, codes = original(self, records)
        return change(self, (records, groups)), codes

    return assign_changed


def _without_a_task(rows: Any, shape_by_operator: Any) -> Any:
    return sum_sent_sizes(list(rows)[1:], shape_by_operator)


def _with_changed_operator(change: Callable[[OperatorState, OperatorState], OperatorState]) -> Callable[..., Any]:
    original = candidate._operator_state

    def changed_operator(entry: OperatorState, planned: Any, handles: Any) -> OperatorState:
        return change(entry, original(entry, planned, handles))

    return changed_operator


def _without_a_subtask(old: OperatorState, new: OperatorState) -> OperatorState:
    subtasks = tuple(s if s.index or s.finished else replace(s, state=SubtaskState()) for s in new.subtasks)
    return replace(new, subtasks=subtasks)


def _subtasks_swapped(old: OperatorState, new: OperatorState) -> OperatorState:
    states = [subtask.state for subtask in reversed(new.subtasks)]
    if any(subtask.finished for subtask in new.subtasks):
        return new
    return replace(new, subtasks=tuple(replace(s, state=t) for s, t in zip(new.subtasks, states, strict=True)))


def _keyed_handle_planter(change: Callable[[KeyGroupsHandle], KeyGroupsHandle]) -> Planter:
    return attribute_planter(new_handles, "_keyed_handle", with_changed_result(_keyed_handle, change))


def _operator_handle_planter(change: Callable[[OperatorHandle], OperatorHandle]) -> Planter:
    return attribute_planter(new_handles, "_operator_handle", with_changed_result(_operator_handle, change))


def _with_late_offsets(handle: KeyGroupsHandle) -> KeyGroupsHandle:
    return replace(handle, offsets=tuple(offset + 1 if offset > 0 else offset for offset in handle.offsets))


def _with_offsets_of_another_state(handle: OperatorHandle) -> OperatorHandle:
    states = zip(handle.states, reversed(handle.states), strict=True)
    return replace(handle, states=tuple(replace(state, offsets=other.offsets) for state, other in states))


def _with_all_states_split(handle: OperatorHandle) -> OperatorHandle:
    mode = DistributionMode.SPLIT_DISTRIBUTE
    return replace(handle, states=tuple(replace(state, mode=mode) for state in handle.states))


def _operator_planter(change: Callable[[OperatorState, OperatorState], OperatorState]) -> Planter:
    return attribute_planter(candidate, "_operator_state", _with_changed_operator(change))


def _assign_planter(change: Callable[[Any, Any], Any]) -> Planter:
    return attribute_planter(NewKeyGroups, "assign", _with_changed_groups(change))


def _key_groups_without_murmur(codes: Any, max_parallelism: int) -> Any:
    """Return the key groups of hash codes that murmur did not scramble."""
    return abs(codes.astype("i8")) % max_parallelism


def _split_one_byte_late(pieces: Any, lengths: Any) -> Any:
    for run in split(pieces, lengths):
        yield tuple(piece._replace(start=piece.start + 1) if i == 0 else piece for i, piece in enumerate(run))


_keyed_handle, _operator_handle = new_handles._keyed_handle, new_handles._operator_handle
_without_last_range = with_changed_result(plan_write_ranges, lambda ranges: ranges[:-1] or ranges)

BUGS = [
    Bug("key groups: floors where Flink has ceilings", function_planter(key_group_range, _cut_by_floors)),
    Bug("key groups: subtasks in the other order", function_planter(key_group_range, _cut_backwards)),
    Bug("key groups: a range ends one late", function_planter(key_group_range, _range_with_shifts(0, 1))),
    Bug("key groups: a range begins one late", function_planter(key_group_range, _range_with_shifts(1, 0))),
    Bug(
        "key groups: the planner alone has floors",
        attribute_planter(key_group_streams, "key_group_range", _cut_by_floors),
    ),
    Bug(
        "key groups: every fifth has another owner",
        attribute_planter(key_group_streams, "owners_of", _owners_off_by_one),
    ),
    Bug("elements: the first run is lost", function_planter(redistribute, _with_changed_shares(_without_first_run))),
    Bug(
        "elements: the last of a run is lost",
        function_planter(redistribute, _with_changed_shares(_without_last_element)),
    ),
    Bug(
        "elements: a union state is doubled",
        function_planter(redistribute, _with_changed_shares(_with_elements_doubled)),
    ),
    Bug(
        "elements: equal elements of a union are merged",
        attribute_planter(element_streams, "extents_of_share", _merge_equal_elements),
    ),
    Bug("elements: one broadcast copy for all", function_planter(redistribute, _with_changed_shares(_with_one_copy))),
    Bug(
        "elements: each run begins one early",
        function_planter(redistribute, _with_changed_shares(_cut_one_element_early)),
    ),
    Bug("elements: all of a split state for one subtask", function_planter(redistribute, _all_to_first_subtask)),
    Bug("pieces: neighbours in any file are joined", function_planter(merge_adjacent, _with_neighbours_in_any_file)),
    Bug("pieces: a part begins one byte late", function_planter(split, _split_one_byte_late)),
    Bug(
        "headers: ids are never translated",
        attribute_planter(HeaderPlanner, "_id_table_number", lambda self, table: None),
    ),
    Bug("regroup: divided, not taken modulo", _assign_planter(lambda s, r: r[0].groups * s._new_max // s._old_max)),
    Bug("rehash: off by one", _assign_planter(lambda s, r: (r[1] + 1) % s._new_max)),
    Bug("rehash: the old key group stays", _assign_planter(lambda s, r: r[0].groups % s._new_max)),
    Bug("rehash: without murmur, everywhere", function_planter(key_groups_of_hashes, _key_groups_without_murmur)),
    Bug("rehash: what a task read is forgotten", attribute_planter(rekeying_run, "sum_sent_sizes", _without_a_task)),
    Bug("rehash: the last write range is forgotten", function_planter(plan_write_ranges, _without_last_range)),
    Bug("handle: offsets one byte late", _keyed_handle_planter(_with_late_offsets)),
    Bug(
        "handle: key groups one late",
        _keyed_handle_planter(lambda h: replace(h, first_key_group=h.first_key_group + 1)),
    ),
    Bug("handle: the last offset is lost", _keyed_handle_planter(lambda h: replace(h, offsets=(*h.offsets[:-1], 0)))),
    Bug("handle: a state has another one's offsets", _operator_handle_planter(_with_offsets_of_another_state)),
    Bug("handle: every state is split", _operator_handle_planter(_with_all_states_split)),
    Bug(
        "candidate: the old parallelism", _operator_planter(lambda old, new: replace(new, parallelism=old.parallelism))
    ),
    Bug(
        "candidate: the old maximum",
        _operator_planter(lambda old, new: replace(new, max_parallelism=old.max_parallelism)),
    ),
    Bug("candidate: subtask 0 has no state", _operator_planter(_without_a_subtask)),
    Bug("candidate: subtasks in the other order", _operator_planter(_subtasks_swapped)),
]
