"""Opening a snapshot: `_metadata`, then the sizes of its files and the headers of its streams, many at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from rescale.errors import RescaleError
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
from rescale.snapshot.changelog_headers import ReadChangelog, with_headers
from rescale.snapshot.discovery import find_metadata
from rescale.snapshot.given_names import unused_names
from rescale.snapshot.handle_streams import has_changes, streams_of
from rescale.snapshot.locate import Locator
from rescale.snapshot.model import Database, ElementStream, KeyedStream, Operator, OtherKeyed, Snapshot
from rescale.snapshot.stream_reader import StreamReader
from rescale.storage.locations import parent
from rescale.storage.second_look import SOURCE, looked_at_again
from rescale.storage.store import Pin, open_store, stats_of

METADATA_LIMIT = 1 << 30
_AT_ONCE = 32

T = TypeVar("T")


def open_snapshot(
    uri: str,
    allow_prefixes: Sequence[str] = (),
    uids: Iterable[tuple[str, str]] = (),
    given_up: Collection[str] = (),
) -> Snapshot:
    """The snapshot at `uri`: a directory with `_metadata`, that file itself, or a job's directory of checkpoints."""
    metadata_uri = find_metadata(uri)
    return open_candidate(metadata_uri, parent(metadata_uri), allow_prefixes, uids, given_up)


def open_candidate(
    metadata_uri: str,
    directory: str,
    allow_prefixes: Sequence[str] = (),
    uids: Iterable[tuple[str, str]] = (),
    given_up: Collection[str] = (),
) -> Snapshot:
    """What the metadata at `metadata_uri` would be, were it the `_metadata` of `directory`.

    Operators that are `given_up` (uids, names or ids) need not be whole: their files are none of the snapshot's unless
    others have them too, and what they have is told as far as it can be read.
    """
    data, pin = open_store(metadata_uri).read_all(metadata_uri, METADATA_LIMIT)
    metadata = read_metadata(data, metadata_uri)
    labels = dict(uids)
    unused = unused_names(labels.items(), {one.operator_id for one in metadata.operators})
    left = frozenset(one.operator_id for one in metadata.operators if _is_one_of(given_up, one, _label(one, labels)))
    locator = Locator(metadata_uri, directory, allow_prefixes)
    pinned = _locate(metadata.operators, locator, left)
    seen = stats_of(locator.files[1:])
    found: list[Pin | None] = [pin, *(seen[uri] for uri in locator.files[1:])]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        files = tuple((uri, pin or Pin(0)) for uri, pin in zip(locator.files, found, strict=True))
        gone = frozenset(uri for uri, pin in zip(locator.files, found, strict=True) if pin is None)
        reader = StreamReader(data, files, gone, locator, metadata.operators)
        try:
            operators = _operators(metadata.operators, reader, labels, left, pool)
        except KeyboardInterrupt:  # nobody waits for what is queued
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    files = files[:pinned]
    missing = tuple(uri for uri, _ in files if uri in gone)
    taken = open_store(metadata_uri).modified(metadata_uri)
    kind = snapshot_type(metadata.properties)
    return Snapshot(directory, metadata, data, kind, files, missing, taken, operators, unused_names=unused)


def _locate(entries: Sequence[OperatorState], locator: Locator, given_up: Collection[str]) -> int:
    """Every stream gets its place; returns the number of files that those have that are not given up.

    Files of these come first, and one of the others that cannot be located leaves all others their places.
    """
    for entry in entries:
        if entry.operator_id not in given_up:
            for stream in streams_of(entry):
                locator.extent(stream)
    number = len(locator.files)
    for entry in entries:
        if entry.operator_id in given_up:
            for stream in streams_of(entry):
                with _may_fail(entry, given_up):
                    locator.extent(stream)
    return number


def _operators(
    entries: Iterable[OperatorState],
    reader: StreamReader,
    labels: dict[str, str],
    given_up: Collection[str],
    pool: Executor,
) -> tuple[Operator, ...]:
    """All operators with their streams. Everything is begun before anything is waited for.

    One that is given up, and cannot be read at a second look either, has none.
    """
    begun = [_Pending(entry, _label(entry, labels), reader, pool) for entry in entries]
    operators = []
    for pending in begun:
        if pending.entry.operator_id not in given_up:
            operators.append(pending.operator())
            continue
        operator = Operator(pending.entry, pending.label, (), (), (), (), (), 0, is_whole=False)
        with _may_fail(pending.entry, given_up):
            operator = replace(_read_with_patience(pending), is_whole=reader.is_whole(pending.entry))
        operators.append(operator)
    return tuple(operators)


def _read_with_patience(pending: _Pending) -> Operator:
    """Whatever is given up is told to be unreadable for ever: not for what was misread once."""
    looks = chain((pending,), iter(pending.again, None))
    return looked_at_again(lambda: next(looks).operator(), SOURCE)


@contextmanager
def _may_fail(entry: OperatorState, given_up: Collection[str]) -> Iterator[None]:
    """In the block, it is no error if the snapshot does not hold what it says of an operator that is given up."""
    try:
        yield
    except RescaleError as error:
        if entry.operator_id not in given_up or not error.final:
            raise


def _is_one_of(selectors: Collection[str], entry: OperatorState, label: str) -> bool:
    """As requests name operators."""
    ids = {one.lower() if is_operator_id(one) else operator_id_of_uid(one) for one in selectors}
    return label in selectors or entry.operator_id in ids


class _Pending:
    """The streams of one operator, being read; each list in subtask order."""

    def __init__(self, entry: OperatorState, label: str, reader: StreamReader, pool: Executor) -> None:
        self.entry, self.label, self._reader, self._pool = entry, label, reader, pool
        self.keyed: list[Future[KeyedStream]] = []
        self.raw_keyed: list[Future[KeyedStream]] = []
        self.managed: list[Future[ElementStream | None]] = []
        self.raw: list[Future[ElementStream | None]] = []
        self.other: list[Future[OtherKeyed]] = []
        self.databases: list[Future[Database]] = []
        self.changelogs: list[Future[ReadChangelog]] = []
        self.channels: list[ChannelHandle] = []
        is_logged = any(_is_logged(one.state.managed_keyed) for one in entry.subtasks if one.state is not None)
        for subtask in sorted(entry.subtasks, key=lambda subtask: subtask.index):
            i, state = subtask.index, subtask.state or SubtaskState()
            keyed = _materialised(state.managed_keyed)
            if is_logged and isinstance(state.managed_keyed, ChangelogHandle):
                self.changelogs.append(pool.submit(reader.changelog, label, i, state.managed_keyed))
            elif isinstance(keyed, KeyGroupsHandle):
                self.keyed.append(pool.submit(reader.keyed, label, i, keyed))
            elif isinstance(keyed, IncrementalHandle):
                self.databases.append(pool.submit(reader.database, label, i, keyed))
            elif keyed is not None:
                self.other.append(pool.submit(reader.other, keyed, i))
            if state.raw_keyed is not None:
                self.raw_keyed.append(pool.submit(reader.raw_keyed, label, i, state.raw_keyed))
            if state.managed_operator is not None:
                self.managed.append(pool.submit(reader.elements, label, i, state.managed_operator, raw=False))
            if state.raw_operator is not None:
                self.raw.append(pool.submit(reader.elements, label, i, state.raw_operator, raw=True))
            self.channels += (*state.input_channels, *state.output_channels)

    def again(self) -> _Pending:
        return _Pending(self.entry, self.label, self._reader, self._pool)

    def operator(self) -> Operator:
        return Operator(
            self.entry,
            self.label,
            keyed=_results(self.keyed),
            changelogs=with_headers(_results(self.changelogs), self.label),
            raw_keyed=_results(self.raw_keyed),
            operator=_results(self.managed),
            raw_operator=_results(self.raw),
            other_keyed=_results(self.other),
            channel_bytes=sum(channel.state_size for channel in self.channels),
            databases=_results(self.databases),
        )


def _is_logged(handle: KeyedHandle | None) -> bool:
    """Whether there is more to a changelog than one state that it stands on as it is."""
    if not isinstance(handle, ChangelogHandle):
        return False
    own, held = _key_groups(handle), [_key_groups(part) for part in handle.base]
    return any(map(has_changes, handle.delta)) or (bool(held) and held != [own])


def _key_groups(handle: KeyedHandle) -> tuple[int, int]:
    """The first one, and how many."""
    number = len(handle.offsets) if isinstance(handle, KeyGroupsHandle) else handle.key_groups
    return handle.first_key_group, number


def _materialised(handle: KeyedHandle | None) -> KeyedHandle | None:
    """What a changelog without changes stands on; any other handle is itself."""
    if not isinstance(handle, ChangelogHandle):
        return handle
    return handle.base[0] if handle.base else None


def _results(pending: Iterable[Future[T] | Future[T | None]]) -> tuple[T, ...]:
    return tuple(stream for future in pending if (stream := future.result()) is not None)


def _label(entry: OperatorState, labels: dict[str, str]) -> str:
    """How an operator is called: as the user says, its uid, its name with the id, or the id."""
    named = f"{entry.name} ({entry.operator_id})" if entry.name else entry.operator_id
    return labels.get(entry.operator_id) or entry.uid or named
