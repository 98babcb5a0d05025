"""Checks of a result's metadata against its source, before any state is compared.

The checks show the following. Every key group that the source holds is in the result once, in the right subtask. The
stored parallelism agrees with the subtasks that have state (Flink does not check this at equal parallelism). States,
their distribution modes and the headers agree. The result refers only to files of the target, of the source, and of the
base that it continues. All other metadata is unchanged.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from rescale.execution.compare.validation.headers import (
    ElementHeaderComparer,
    KeyedHeaderComparer,
    check_equal,
    distinct_by_header,
    header_errors,
)
from rescale.flink.key_group_index import KeyGroupIndex
from rescale.flink.keyed.header import KeyedHeader, merge_keyed_headers
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode, HandleTag
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.slot import Slot
from rescale.planning.request.operator_shapes import Shape
from rescale.runstate.certificate import Certificate, refuse_changed_metadata
from rescale.snapshot.keyed_state import KeyedStateHolder, KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.storage.contract import Pin
from rescale.storage.files.temporary_files import is_temporary
from rescale.storage.locations import contains, join, name
from rescale.text.advice import SAME_COMMAND, Advice
from rescale.text.errors import IntegrityError, RequestError


class GroupPair(NamedTuple):
    """A key group in the source and in the result. If state ids differ, `id_map` has the result's ids by the source's.

    `filler` is the block without entries that the result must have if the source has no entry (heap framing).
    """

    key_group: int
    source: Extent | None
    result: Extent
    id_map: tuple[int, ...] | None = None
    compressed: bool = False
    filler: bytes = b""


def check_metadata(source: Snapshot, result: Snapshot) -> None:
    """Check everything in `_metadata` that a rescale does not change."""
    after, before = result.metadata, source.metadata
    check_equal("metadata version", before.version, after.version)
    check_equal("checkpoint id", before.checkpoint_id, after.checkpoint_id)
    check_equal("master states", before.masters, after.masters)
    is_canonical = not any(operator.databases for operator in result.operators) and all(
        s.handle_tag == HandleTag.SAVEPOINT_KEY_GROUPS for operator in result.operators for s in operator.keyed
    )
    properties = savepoint_properties(is_canonical=is_canonical) if before.properties else b""
    if after.properties != properties:
        raise IntegrityError(
            "the metadata of the result has the properties of another kind of snapshot",
            expected=f"the properties of a {'canonical' if is_canonical else 'native'} savepoint",
            found=f"the properties of {result.type.name}, or damaged ones",
        )
    if result.missing_files:
        raise IntegrityError(
            "files of the result are missing", path=result.missing_files[0], found=f"{len(result.missing_files)} in all"
        )
    check_equal(
        "operators",
        [o.operator_id for o in source.operators],
        [o.operator_id for o in result.operators],
    )
    for old, new in zip(source.operators, result.operators, strict=True):
        for field in ("name", "uid", "coordinator", "fully_finished"):
            check_equal(field.replace("_", " "), getattr(old.entry, field), getattr(new.entry, field), old.label)
        check_equal("finished subtasks", _finished_subtasks(old), _finished_subtasks(new), old.label)
        if new.other_keyed or new.changelogs or new.has_channel_state:
            raise IntegrityError("the result has a kind of state that a rescale never writes", operator=old.label)


def check_candidate(result: Snapshot, sha256: str) -> None:
    """Check that the candidate's metadata still has the bytes that were written."""
    if result.metadata_sha256 != sha256:
        raise IntegrityError(
            "the candidate metadata differs from what was written",
            path=result.metadata_uri,
            expected=f"SHA-256 {sha256}",
            found=f"SHA-256 {result.metadata_sha256}",
            advice=Advice("another run of this plan may be active: when it has ended, ", SAME_COMMAND),
        )


def check_planned(result: Snapshot, shapes: Mapping[str, Shape]) -> None:
    """Raise `RequestError` unless every operator of the result has its planned shape, which is in `shapes` by id.

    The result is either the candidate or, if the target is published already, what was published.
    """
    for operator, expected, actual in _differing_shapes(result, shapes):
        raise RequestError(
            "the target holds another published result",
            path=result.metadata_uri,
            operator=operator.label,
            expected=expected,
            found=actual,
            advice="name another target",
        )


def check_certified(result: Snapshot, certificate: Certificate) -> None:
    """Check that the metadata is the certified one: the shape of every operator, then the bytes of `_metadata`."""
    certified_shapes = {
        operator.operator_id: Shape(operator.parallelism, operator.max_parallelism)
        for operator in certificate.operators
    }
    for operator, expected, actual in _differing_shapes(result, certified_shapes):
        raise IntegrityError(
            "an operator does not have the certified shape",
            path=result.metadata_uri,
            operator=operator.label,
            expected=expected,
            found=actual,
        )
    refuse_changed_metadata(result.metadata_uri, result.metadata_sha256, certificate)


def _differing_shapes(result: Snapshot, shapes: Mapping[str, Shape]) -> Iterator[tuple[Operator, str, str]]:
    """Yield (operator, expected shape, actual shape) for each operator whose shape differs; shapes are text."""
    for operator in result.operators:
        expected, actual = shapes.get(operator.operator_id), Shape(operator.parallelism, operator.max_parallelism)
        if expected != actual:
            yield operator, str(expected or "no such operator"), str(actual)


def check_references(source: Snapshot, result: Snapshot, base_files: Mapping[str, Pin] = MappingProxyType({})) -> None:
    """Check that every file outside the target is a file of the source, in the version that the source pins.

    If the result continues a base, a file of `base_files` (pinned versions by URI) is allowed, too.
    """
    allowed_pins = {**base_files, **dict(source.files)}
    for uri, pin in result.files[1:]:
        if not contains(result.directory, uri) and not pin.matches(allowed_pins.get(uri)):
            raise IntegrityError(
                "the result refers to a file that does not belong to the source or to a base",
                path=uri,
                expected=allowed_pins.get(uri) or f"a file in {result.directory}",
                found=pin,
            )


def check_directory(result: Snapshot, existing_uris: Sequence[str]) -> None:
    """Check that all files in the target (`existing_uris`) belong to the result.

    Flink deletes the files of a claimed savepoint, and then its directory only if it is empty. Temporary files are
    allowed: they are deleted before the result is published.
    """
    expected_files = {join(result.directory, "_metadata"), *(uri for uri, _ in result.files)}
    surplus_uris = [
        uri
        for uri in existing_uris
        if uri not in expected_files and not is_temporary(name(result.directory), name(uri))
    ]
    if surplus_uris:
        raise IntegrityError(
            "the target holds files that do not belong to the result",
            path=result.directory,
            expected=f"at most {len(expected_files)} files",
            found=f"{len(surplus_uris)} other files, such as {surplus_uris[0]}",
            advice="move them elsewhere",
        )


def pair_key_groups(old: Operator, new: Operator, slot: Slot) -> list[GroupPair]:
    """Pair every key group of the operator with its extent in the source, in the order of the result's streams."""
    source_streams = old.keyed if slot is Slot.KEYED else old.raw_keyed
    result_streams = new.keyed if slot is Slot.KEYED else new.raw_keyed
    source_by_key_group = {g: (s, extent) for s in source_streams for g, extent in s.present_groups}
    pairs: dict[int, GroupPair] = {}
    index, header_comparer = KeyGroupIndex(source_streams), KeyedHeaderComparer(old.label)
    for stream in result_streams:
        _check_key_groups(stream, new, old.label)
        id_maps = (
            header_comparer.compare(distinct_by_header(index.overlapping(stream.key_groups)), stream)
            if slot is Slot.KEYED
            else {}
        )
        for key_group, extent in stream.present_groups:
            if key_group in pairs:
                raise IntegrityError(f"key group {key_group} is in the result twice", operator=old.label)
            owner, source = source_by_key_group.get(key_group, (None, None))
            if owner is None or source is None or (owner.header != stream.header and owner.has_no_entry):
                filler = _filler_block(old.label, key_group, stream)
                pairs[key_group] = GroupPair(key_group, None, extent, filler=filler)
                continue
            is_compressed = stream.parsed is not None and stream.parsed.compressed
            pairs[key_group] = GroupPair(key_group, source, extent, id_maps.get(owner.header), is_compressed)
    lost_groups = source_by_key_group.keys() - pairs.keys()
    if lost_groups:
        raise IntegrityError(
            f"key group {min(lost_groups)} is not in the result",
            operator=old.label,
            expected=f"{len(source_by_key_group)} key groups with state",
            found=f"{len(lost_groups)} missing",
        )
    return list(pairs.values())


def _check_key_groups(holder: KeyedStateHolder, new: Operator, label: str, subject: str = "key groups") -> None:
    """Check that a part of the result's keyed state has the key groups of its subtask."""
    expected_key_groups = new.key_groups_of(holder.subtask)
    check_equal(f"{subject} of subtask {holder.subtask}", expected_key_groups, holder.key_groups, label)


def is_compared_by_record(old: Operator, new: Operator) -> bool:
    """Return whether the operator's keyed state must be compared record by record.

    It must if the max parallelism, the states or the kind of state changed, if old rows were left out, if raw keyed
    timers became keyed state, or if RocksDB directories were split or joined.
    """
    if old.max_parallelism != new.max_parallelism or old.holder_kinds != new.holder_kinds:
        return True
    if old.dropped_states or old.cutoffs or (old.raw_timers and not new.raw_keyed):
        return True
    if old.heap_streams and _lists_different_states(old, new):
        return True
    return bool(old.databases) and _directory_layouts(old) != _directory_layouts(new)


def moves_raw_groups(old: Operator, new: Operator) -> bool:
    """Return whether raw keyed state, timers included, moved by whole key groups, and can be compared by them.

    Timers that the source has twice are compared as records: the result has only one of both copies.
    """
    return old.max_parallelism == new.max_parallelism and bool(new.raw_keyed) and not old.duplicate_timers


def _lists_different_states(old: Operator, new: Operator) -> bool:
    """Return whether a heap stream of the result lists other states than a source stream with some of its key groups.

    Such a stream of the result cannot consist of whole key groups of the source.
    """
    index = KeyGroupIndex([stream for stream in old.heap_streams if not stream.has_no_entry])
    pairs = ((old_stream, stream) for stream in new.heap_streams for old_stream in index.overlapping(stream.key_groups))
    return any(old_stream.state_names != stream.state_names for old_stream, stream in pairs)


def check_rekeyed(old: Operator, new: Operator) -> None:
    """Check the layout of keyed state whose records moved one by one; digests prove the records themselves."""
    old_holders, new_holders = old.managed_keyed, new.managed_keyed
    timers = () if new.raw_keyed else old.heap_timers
    left_out_states = old.dropped_states | (old.duplicate_states if new.raw_keyed else frozenset())
    index, header_comparer = KeyGroupIndex(old_holders), KeyedHeaderComparer(old.label, timers, left_out_states)
    subtasks = list(range(new.parallelism)) if old_holders or timers else []
    keeps_key_groups = old.max_parallelism == new.max_parallelism
    if old.databases and new.databases and keeps_key_groups:
        subtasks = [subtask for subtask in subtasks if index.overlapping(new.key_groups_of(subtask))]
    check_equal("subtasks with keyed state", subtasks, [stream.subtask for stream in new_holders], old.label)
    if not keeps_key_groups:
        raw_keyed = (*old.raw_keyed_without_timers, *new.raw_keyed_without_timers)
        check_equal("subtasks with raw keyed state", [], [stream.subtask for stream in raw_keyed], old.label)
    all_old_holders = distinct_by_header(old_holders)
    for stream in new_holders:
        _check_key_groups(stream, new, old.label)
        expected_framing = Framing.HEAP if old.heap_streams and new.heap_streams else Framing.CANONICAL
        check_equal(f"framing of subtask {stream.subtask}", expected_framing, stream.framing, old.label)
        header_comparer.compare(
            distinct_by_header(index.overlapping(stream.key_groups))
            if new.databases and keeps_key_groups
            else all_old_holders,
            stream,
        )


class FilePair(NamedTuple):
    """A file of a subtask's RocksDB directory in the result, and the file of the source that it must equal.

    `name` is the file's name in the subtask's directory.
    """

    subtask: int
    name: str
    source: Extent
    result: Extent

    @property
    def is_table(self) -> bool:
        """Whether the file is an SST file."""
        return self.name.endswith(".sst")


def _directory_layouts(operator: Operator) -> list[tuple[object, ...]]:
    return [
        (directory.subtask, directory.key_groups, sorted(file.name for file in directory.files))
        for directory in operator.databases
    ]


def pair_database_files(old: Operator, new: Operator) -> list[FilePair]:
    """Pair the files of the operator's RocksDB directories in source and result, headers included."""
    check_equal("RocksDB directories", _directory_layouts(old), _directory_layouts(new), old.label)
    for database in new.databases:
        _check_key_groups(database, new, old.label)
    return [
        FilePair(new_database.subtask, name, source, result)
        for old_database, new_database in zip(old.databases, new.databases, strict=True)
        for name, source, result in (
            (f"the states of subtask {old_database.subtask}", old_database.header_extent, new_database.header_extent),
            *(
                (source_file.name, source_file.extent, result_file.extent)
                for source_file, result_file in zip(sorted(old_database.files), sorted(new_database.files), strict=True)
            ),
        )
    ]


def check_elements(old: Operator, new: Operator, slot: Slot) -> None:
    """Check states, modes and headers of operator state; digests prove the elements themselves."""
    source_streams, result_streams = old.element_streams_in(slot), new.element_streams_in(slot)
    check_equal(f"{slot} states", _states_and_modes(source_streams), _states_and_modes(result_streams), old.label)
    keeps_parallelism = old.parallelism == new.parallelism
    keeps_subtasks = keeps_parallelism or not source_streams
    expected_subtasks = (
        [stream.subtask for stream in source_streams] if keeps_subtasks else list(range(new.parallelism))
    )
    check_equal(
        f"subtasks with {slot} state", expected_subtasks, [stream.subtask for stream in result_streams], old.label
    )
    sources_by_subtask: dict[int, list[ElementStream]] = defaultdict(list)
    for source in source_streams:
        sources_by_subtask[source.subtask].append(source)
    header_comparer, all_source_streams = ElementHeaderComparer(old.label), distinct_by_header(source_streams)
    for stream in result_streams:
        header_comparer.compare(
            distinct_by_header(sources_by_subtask[stream.subtask]) if keeps_parallelism else all_source_streams, stream
        )


def broadcast_states(streams: Sequence[ElementStream]) -> Iterator[tuple[str, int]]:
    """Yield (state, subtask) of every copy of a broadcast state."""
    for stream in streams:
        for state in stream.states:
            if state.mode is DistributionMode.BROADCAST and state.elements:
                yield state.name, stream.subtask


def _finished_subtasks(operator: Operator) -> list[int]:
    return sorted(subtask.index for subtask in operator.entry.subtasks if subtask.finished)


def _states_and_modes(streams: Sequence[ElementStream]) -> list[tuple[str, str]]:
    return sorted({(state.name, state.mode.name) for stream in streams for state in stream.states})


def _filler_block(label: str, key_group: int, stream: KeyedStream) -> bytes:
    """Return the block that the result must have where the source has no entry: a heap block without entries."""
    if stream.framing is not Framing.HEAP or stream.parsed is None:
        raise IntegrityError(f"key group {key_group} is not in the source", operator=label)
    return empty_group(key_group, stream.parsed)


def check_raw_timers(old: Operator, new: Operator) -> None:
    """Check the raw timers of an operator whose records moved one by one: each stream has its subtask's key groups.

    If the max parallelism changed, either every subtask has a stream that lists all timer services, or none has a
    stream and timers are keyed states. The timers themselves are compared as records.
    """
    for stream in new.raw_timers:
        _check_key_groups(stream, new, old.label, "key groups of the timers")
    if new.raw_timers and old.max_parallelism != new.max_parallelism:
        subtasks = list(range(new.parallelism)) if old.raw_timers else []
        check_equal("subtasks with raw timers", subtasks, [stream.subtask for stream in new.raw_timers], old.label)
        source_headers = list(dict.fromkeys(timers.parsed for timers in old.raw_timers if timers.parsed is not None))
        for stream in new.raw_timers:
            _check_services(old, source_headers, stream)


def _check_services(old: Operator, source_headers: Sequence[KeyedHeader], stream: KeyedStream) -> None:
    """Check that a stream lists the timer services of the source's streams, whose distinct headers are given."""
    headers = source_headers if stream.parsed is None else [stream.parsed, *source_headers]
    with header_errors(f"the timers of subtask {stream.subtask} do not agree with the source's", old.label):
        merged_header = merge_keyed_headers(headers).header
    subject = f"timer services of subtask {stream.subtask}"
    check_equal(subject, merged_header, stream.parsed, old.label)
    source_services = {state.name for header in source_headers for state in header.states}
    check_equal(subject, sorted(source_services), sorted(stream.state_names), old.label)
