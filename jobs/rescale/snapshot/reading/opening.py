"""Open a snapshot: read `_metadata`, then the sizes of its files and the headers of its streams, in parallel."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from rescale.flink.metadata.checkpoint_metadata import OperatorState, SubtaskState
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    ChannelHandle,
    IncrementalHandle,
    KeyedHandle,
    KeyGroupsHandle,
)
from rescale.flink.metadata.properties import snapshot_type
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.flink.release_line import kryo_of_writer
from rescale.snapshot.keyed_state import Database, KeyedStream, OtherKeyed
from rescale.snapshot.locate import Locator
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.snapshot.moves import Move, find_moves
from rescale.snapshot.reading.changelog_headers import HeaderlessChangelog, with_headers
from rescale.snapshot.reading.discovery import find_metadata
from rescale.snapshot.reading.given_names import unused_names
from rescale.snapshot.reading.handle_streams import has_changes, streams_of
from rescale.snapshot.reading.stream_reader import StreamReader
from rescale.storage.locations import parent
from rescale.storage.rereads import SOURCE, read_again_on_failure
from rescale.storage.store import Pin, open_store, stats_of
from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError

METADATA_LIMIT_BYTES = 1 << 30
_READS_AT_ONCE = 32

T = TypeVar("T")


def open_snapshot(
    uri: str,
    allow_prefixes: Sequence[str] = (),
    ids_and_labels: Iterable[tuple[str, str]] = (),
    given_up: Collection[str] = (),
    moves: Sequence[Move] = (),
) -> Snapshot:
    """Open the snapshot at `uri`: a directory with `_metadata`, that file itself, or a job's directory of checkpoints.

    See `open_candidate` for the other parameters.
    """
    metadata_uri = find_metadata(uri)
    return open_candidate(
        metadata_uri, parent(metadata_uri), allow_prefixes, ids_and_labels, given_up, moves, finds_moves=True
    )


def open_readable(
    uri: str,
    allow_prefixes: Sequence[str] = (),
    ids_and_labels: Iterable[tuple[str, str]] = (),
    moves: Sequence[Move] = (),
) -> Snapshot:
    """Open a snapshot as far as it can be read: an operator whose state cannot be read has a `read_error`."""
    try:
        return open_snapshot(uri, allow_prefixes, ids_and_labels, moves=moves)
    except (SnapshotError, UnsupportedError) as error:
        if error.operator is None:
            raise
    metadata_uri = find_metadata(uri)
    metadata_bytes, _ = open_store(metadata_uri).read_all(metadata_uri, METADATA_LIMIT_BYTES)
    all_ids = [entry.operator_id for entry in read_metadata(metadata_bytes, metadata_uri).operators]
    snapshot = open_snapshot(uri, allow_prefixes, ids_and_labels, all_ids, moves)
    unread_ids = [operator.operator_id for operator in snapshot.operators if operator.read_error is not None]
    return open_snapshot(uri, allow_prefixes, ids_and_labels, unread_ids, moves)


def open_candidate(
    metadata_uri: str,
    directory: str,
    allow_prefixes: Sequence[str] = (),
    ids_and_labels: Iterable[tuple[str, str]] = (),
    given_up: Collection[str] = (),
    moves: Sequence[Move] = (),
    *,
    finds_moves: bool = False,
) -> Snapshot:
    """Open the metadata at `metadata_uri` as if it were the `_metadata` of `directory`.

    `allow_prefixes` are places outside of the snapshot to which handles may point. `ids_and_labels` are (operator id,
    label) pairs. Operators that are `given_up` (uids, labels or ids) may be damaged. They are read as far as possible,
    and files that only they have do not belong to the snapshot. `moves` has the old and new places of moved files; with
    `finds_moves`, the function searches for more moves. `finds_moves` must be False for a result, whose files must lie
    where its handles place them, and for the source of a plan, which is read as planned. Raises `SnapshotError` or
    `UnsupportedError` if the snapshot cannot be read.
    """
    metadata_bytes, pin = open_store(metadata_uri).read_all(metadata_uri, METADATA_LIMIT_BYTES)
    metadata = read_metadata(metadata_bytes, metadata_uri)
    label_by_id = dict(ids_and_labels)
    unused_labels = unused_names(label_by_id.items(), {entry.operator_id for entry in metadata.operators})
    given_up_ids = frozenset(
        entry.operator_id for entry in metadata.operators if _is_selected(given_up, entry, _label(entry, label_by_id))
    )
    if finds_moves:
        streams = [stream for entry in metadata.operators for stream in streams_of(entry)]
        moves = (*moves, *find_moves(streams, metadata_uri, directory, moves))
    locator = Locator(metadata_uri, directory, allow_prefixes, moves)
    pinned_count = _locate(metadata.operators, locator, given_up_ids)
    versions = stats_of(locator.files[1:])
    pins: list[Pin | None] = [pin, *(versions[uri] for uri in locator.files[1:])]
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        files = tuple((uri, pin or Pin(0)) for uri, pin in zip(locator.files, pins, strict=True))
        missing_uris = frozenset(uri for uri, pin in zip(locator.files, pins, strict=True) if pin is None)
        reader = StreamReader(
            metadata_bytes, files, missing_uris, locator, metadata.operators, kryo_of_writer(metadata.version)
        )
        try:
            operators = _operators(metadata.operators, reader, label_by_id, given_up_ids, pool)
        except KeyboardInterrupt:  # do not start the queued reads
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    files = files[:pinned_count]
    missing_files = tuple(uri for uri, _ in files if uri in missing_uris)
    metadata_time = open_store(metadata_uri).modification_time(metadata_uri)
    kind = snapshot_type(metadata.properties)
    return Snapshot(
        directory,
        metadata,
        metadata_bytes,
        kind,
        files,
        missing_files,
        metadata_time,
        operators,
        unused_names=unused_labels,
        moves=tuple(moves),
        moved_paths=tuple(locator.moved_places),
    )


def _locate(entries: Sequence[OperatorState], locator: Locator, given_up: Collection[str]) -> int:
    """Locate every stream, and return the number of files of the operators that are not given up.

    The files of these operators get the first numbers. So their numbers do not depend on given-up operators, some of
    whose streams may have no location.
    """
    for entry in entries:
        if entry.operator_id not in given_up:
            for stream in streams_of(entry):
                locator.extent(stream)
    pinned_count = len(locator.files)
    for entry in entries:
        if entry.operator_id in given_up:
            for stream in streams_of(entry):
                with _ignoring_errors(entry, given_up):
                    locator.extent(stream)
    return pinned_count


def _operators(
    entries: Iterable[OperatorState],
    reader: StreamReader,
    label_by_id: dict[str, str],
    given_up: Collection[str],
    pool: Executor,
) -> tuple[Operator, ...]:
    """Return all operators with their streams; all reads are queued before the first result is awaited.

    A given-up operator that cannot be read, even at a second attempt, has no streams.
    """
    pending_operators = [_PendingOperator(entry, _label(entry, label_by_id), reader, pool) for entry in entries]
    operators = []
    for pending in pending_operators:
        if pending.entry.operator_id not in given_up:
            operators.append(pending.operator())
            continue
        try:
            operator = replace(_read_twice(pending), is_whole=reader.is_whole(pending.entry))
        except RescaleError as error:
            if not error.is_final:
                raise
            operator = Operator(pending.entry, pending.label, (), (), (), (), (), 0, is_whole=False, read_error=error)
        operators.append(operator)
    return tuple(operators)


def _read_twice(pending: _PendingOperator) -> Operator:
    """Read a given-up operator twice before declaring it unreadable, because a single read may fail."""
    reads = chain((pending,), iter(pending.read_again, None))
    return read_again_on_failure(lambda: next(reads).operator(), SOURCE)


@contextmanager
def _ignoring_errors(entry: OperatorState, given_up: Collection[str]) -> Iterator[None]:
    """Ignore final errors in the block if the operator is given up."""
    try:
        yield
    except RescaleError as error:
        if entry.operator_id not in given_up or not error.is_final:
            raise


def _is_selected(selectors: Collection[str], entry: OperatorState, label: str) -> bool:
    ids = {name.lower() if is_operator_id(name) else operator_id_of_uid(name) for name in selectors}
    return label in selectors or entry.operator_id in ids


class _PendingOperator:
    """The pending reads of one operator's streams, in the order of the subtasks."""

    def __init__(self, entry: OperatorState, label: str, reader: StreamReader, pool: Executor) -> None:
        self.entry, self.label, self._reader, self._pool = entry, label, reader, pool
        self.keyed: list[Future[KeyedStream]] = []
        self.raw_keyed: list[Future[KeyedStream]] = []
        self.managed: list[Future[ElementStream | None]] = []
        self.raw: list[Future[ElementStream | None]] = []
        self.other: list[Future[OtherKeyed]] = []
        self.databases: list[Future[Database]] = []
        self.changelogs: list[Future[HeaderlessChangelog]] = []
        self.channels: list[ChannelHandle] = []
        is_changelog_read = any(
            _is_read_as_changelog(subtask.state.managed_keyed) for subtask in entry.subtasks if subtask.state
        )
        for subtask in sorted(entry.subtasks, key=lambda subtask: subtask.index):
            subtask_index, state = subtask.index, subtask.state or SubtaskState()
            keyed_handle = _materialised_handle(state.managed_keyed)
            if is_changelog_read and isinstance(state.managed_keyed, ChangelogHandle):
                self.changelogs.append(pool.submit(reader.changelog, label, subtask_index, state.managed_keyed))
            elif isinstance(keyed_handle, KeyGroupsHandle):
                self.keyed.append(pool.submit(reader.keyed, label, subtask_index, keyed_handle))
            elif isinstance(keyed_handle, IncrementalHandle):
                self.databases.append(pool.submit(reader.database, label, subtask_index, keyed_handle))
            elif keyed_handle is not None:
                self.other.append(pool.submit(reader.other, keyed_handle, subtask_index))
            if state.raw_keyed is not None:
                self.raw_keyed.append(pool.submit(reader.raw_keyed, label, subtask_index, state.raw_keyed))
            if state.managed_operator is not None:
                self.managed.append(
                    pool.submit(reader.elements, label, subtask_index, state.managed_operator, is_raw=False)
                )
            if state.raw_operator is not None:
                self.raw.append(pool.submit(reader.elements, label, subtask_index, state.raw_operator, is_raw=True))
            self.channels += (*state.input_channels, *state.output_channels)

    def read_again(self) -> _PendingOperator:
        return _PendingOperator(self.entry, self.label, self._reader, self._pool)

    def operator(self) -> Operator:
        return Operator(
            self.entry,
            self.label,
            keyed=_results(self.keyed),
            changelogs=with_headers(_results(self.changelogs), self.label),
            raw_keyed=_results(self.raw_keyed),
            element_streams=_results(self.managed),
            raw_element_streams=_results(self.raw),
            other_keyed=_results(self.other),
            channel_bytes=sum(channel.state_size for channel in self.channels),
            databases=_results(self.databases),
        )


def _is_read_as_changelog(handle: KeyedHandle | None) -> bool:
    """Return whether a handle is a changelog that must be read as such.

    A changelog without changes is read as its base if the base is empty, or is one part with the same key groups.
    """
    if not isinstance(handle, ChangelogHandle):
        return False
    key_groups, base_key_groups = _key_groups(handle), [_key_groups(part) for part in handle.base]
    return any(map(has_changes, handle.delta)) or (bool(base_key_groups) and base_key_groups != [key_groups])


def _key_groups(handle: KeyedHandle) -> tuple[int, int]:
    """Return the first key group of a handle and the number of its key groups."""
    key_group_count = len(handle.offsets) if isinstance(handle, KeyGroupsHandle) else handle.key_group_count
    return handle.first_key_group, key_group_count


def _materialised_handle(handle: KeyedHandle | None) -> KeyedHandle | None:
    """Return the only base part of a changelog without changes, None if its base is empty; else the handle itself."""
    if not isinstance(handle, ChangelogHandle):
        return handle
    return handle.base[0] if handle.base else None


def _results(futures: Iterable[Future[T] | Future[T | None]]) -> tuple[T, ...]:
    return tuple(stream for future in futures if (stream := future.result()) is not None)


def _label(entry: OperatorState, label_by_id: dict[str, str]) -> str:
    """Return the label of an operator: the user's name for it, else its uid, else its name with the id, else the id."""
    name_with_id = f"{entry.name} ({entry.operator_id})" if entry.name else entry.operator_id
    return label_by_id.get(entry.operator_id) or entry.uid or name_with_id
