"""Reader of the streams that state handles name: their extents, their key groups or elements, and their headers."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.changelog.change_sets import is_compressed_log
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keyed.key_group_table import Framing, group_extents
from rescale.flink.keyed.timers.heap_timers import (
    BLOCK_HEAD,
    EMPTY_BLOCK_SIZE,
    HiddenTimerError,
    TimerService,
    read_services,
    timer_header,
)
from rescale.flink.metadata.checkpoint_metadata import OperatorState
from rescale.flink.metadata.handles import (
    ChangelogDelta,
    ChangelogHandle,
    IncrementalHandle,
    InlineStream,
    InMemoryChangelogHandle,
    KeyedHandle,
    KeyGroupsHandle,
    OperatorHandle,
    SegmentStream,
    Stream,
)
from rescale.flink.operator_state import OperatorStateHeader, element_extents, read_operator_state_header
from rescale.flink.serializers.snapshot import UnknownSerializerError
from rescale.snapshot.keyed_state import Changelog, ChangeSet, Database, DatabaseFile, KeyedStream, OtherKeyed
from rescale.snapshot.locate import Extent, Locator
from rescale.snapshot.model import ElementState, ElementStream
from rescale.snapshot.reading.changelog_headers import HeaderlessChangelog
from rescale.snapshot.reading.changelogs import logged_states
from rescale.snapshot.reading.framing import framing_of
from rescale.snapshot.reading.handle_streams import bytes_of_changes, keyed_streams, streams_of
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.store import Pin
from rescale.text.errors import SnapshotError, located

HEADER_LIMIT_BYTES = 64 << 20

_FILE_NAME = re.compile(r"\w[\w.-]*")

H = TypeVar("H")


class StreamReader:
    """Thread-safe reader that turns handles into streams, and reads the beginnings of the streams."""

    def __init__(
        self,
        data: bytes,
        files: tuple[tuple[str, Pin], ...],
        missing_uris: frozenset[str],
        locator: Locator,
        entries: Iterable[OperatorState],
        kryo: int,
    ) -> None:
        self._files = files
        # These reads accept any version: a run may rewrite a result meanwhile, and tasks check the versions of sources.
        self._contents = SnapshotFiles(files, data).without_pins()
        self._missing_uris = missing_uris
        self._kryo = kryo
        self._locator = locator
        self._base_offsets = _offsets_in_bases(entries)
        self._headers: dict[bytes, bytes] = {}
        self._keyed_headers: dict[bytes, KeyedHeader | None] = {}
        self._operator_headers: dict[bytes, OperatorStateHeader | None] = {}

    def is_whole(self, entry: OperatorState) -> bool:
        """Tell whether all files that the operator's handles name exist."""
        extents = [extent for stream in streams_of(entry) if (extent := self._locator.extent(stream))]
        return all(self._files[extent.file][0] not in self._missing_uris for extent in extents)

    def keyed(self, label: str, subtask: int, handle: KeyGroupsHandle) -> KeyedStream:
        """Return the managed keyed stream of a subtask."""
        extent = self._extent(label, subtask, handle.stream)
        other_offsets = self._base_offsets.get(handle.stream, ())
        next_index = bisect_right(other_offsets, max(handle.offsets, default=0))
        handle_extent = extent.part(0, min((*other_offsets[next_index : next_index + 1], extent.length)))
        framing = framing_of(handle, handle_extent, self._read)
        groups = self._groups(label, handle_extent, handle, framing)
        group_starts = (group.start - extent.start for group in groups if group is not None)
        header = self._header(extent.part(0, min((*group_starts, *other_offsets[:1], extent.length))))
        return KeyedStream(
            subtask,
            handle.tag,
            extent,
            framing,
            handle.first_key_group,
            groups,
            header,
            self._parsed(self._read_keyed_header, self._keyed_headers, label, extent, header),
        )

    def raw_keyed(self, label: str, subtask: int, handle: KeyedHandle) -> KeyedStream:
        """Return the raw keyed stream of a subtask. Raises `SnapshotError` if its handle is not a `KeyGroupsHandle`."""
        if not isinstance(handle, KeyGroupsHandle):
            raise SnapshotError(
                "raw keyed state has a handle of an invalid kind",
                path=self._files[0][0],
                operator=label,
                expected=KeyGroupsHandle.__name__,
                found=type(handle).__name__,
            )
        extent = self._extent(label, subtask, handle.stream)
        groups = self._groups(label, extent, handle, Framing.RAW)
        stream = KeyedStream(subtask, handle.tag, extent, Framing.RAW, handle.first_key_group, groups, b"", None)
        try:
            services = self._timer_services(groups)
        except HiddenTimerError:
            return replace(stream, has_hidden_timers=True)
        header = timer_header(services).with_kryo(self._kryo) if services else None
        return replace(stream, parsed=header, timer_services=services)

    def elements(self, label: str, subtask: int, handle: OperatorHandle, *, is_raw: bool) -> ElementStream | None:
        """Return the operator state of a subtask; None for an empty handle, which file merging writes."""
        extent = self._locator.extent(handle.stream)
        if extent is None:
            return None
        self._check_size(label, extent)
        path = self._files[extent.file][0]
        with located(path=path, operator=label):
            ranges = element_extents(handle.states, extent.length)
        states = tuple(
            ElementState(state.name, state.mode, tuple(extent.part(start, length) for start, length in elements))
            for state, elements in zip(handle.states, ranges, strict=True)
        )
        first_element_start = min(
            (element_extent.start for state in states for element_extent in state.elements),
            default=extent.start + extent.length,
        )
        header = b"" if is_raw else self._header(extent.part(0, first_element_start - extent.start))
        parsed_header = self._parsed(read_operator_state_header, self._operator_headers, label, extent, header)
        return ElementStream(subtask, extent, states, header, parsed_header)

    def database(self, label: str, subtask: int, handle: IncrementalHandle) -> Database:
        """Return the RocksDB directory of a subtask, before its MANIFEST is read.

        Raises `SnapshotError` for invalid or repeated file names.
        """
        meta_extent = self._extent(label, subtask, handle.meta)
        header = self._header(meta_extent)
        files = tuple(
            DatabaseFile(file.name, self._extent(label, subtask, file.stream))
            for file in (*handle.shared, *handle.private)
        )
        invalid_names = [file.name for file in files if not _FILE_NAME.fullmatch(file.name)]
        if invalid_names or len({file.name for file in files}) < len(files):
            raise SnapshotError(
                f"the RocksDB directory of subtask {subtask} has invalid or repeated file names",
                path=self._files[0][0],
                operator=label,
                found=invalid_names[0] if invalid_names else "the same name twice",
            )
        last_key_group = handle.first_key_group + handle.key_group_count - 1
        return Database(
            subtask,
            KeyGroupRange(handle.first_key_group, last_key_group),
            meta_extent,
            header,
            self._parsed(self._read_keyed_header, self._keyed_headers, label, meta_extent, header),
            files,
        )

    def changelog(self, label: str, subtask: int, handle: ChangelogHandle) -> HeaderlessChangelog:
        """Return the changelog of a subtask, whose materialised base and changes may both be empty."""
        key_groups = KeyGroupRange(handle.first_key_group, handle.first_key_group + handle.key_group_count - 1)
        base_parts = tuple(self._base_part(label, subtask, part, key_groups) for part in handle.base)
        change_sets = tuple(
            change_set for delta in handle.delta for change_set in self._change_sets(label, subtask, delta)
        )
        log_size = sum(bytes_of_changes(delta) for delta in handle.delta)
        changelog = Changelog(subtask, key_groups, base_parts, change_sets, log_size, header=b"", parsed=None)
        if any(self._files[change_set.extent.file][0] in self._missing_uris for change_set in change_sets):
            return HeaderlessChangelog(changelog, None)
        try:
            with located(operator=label):
                return HeaderlessChangelog(
                    changelog,
                    tuple(state.info.with_kryo(self._kryo) for state in logged_states(self._contents, change_sets)),
                )
        except UnknownSerializerError:
            return HeaderlessChangelog(changelog, None)

    def _base_part(
        self, label: str, subtask: int, handle: KeyedHandle, key_groups: KeyGroupRange
    ) -> KeyedStream | Database:
        """Return the key groups `key_groups` of one part of a materialised base, which several subtasks may share."""
        if isinstance(handle, IncrementalHandle):
            database = self.database(label, subtask, handle)
            return replace(database, key_groups=database.key_groups.intersection(key_groups))
        if not isinstance(handle, KeyGroupsHandle):
            raise SnapshotError(
                f"the changelog of subtask {subtask} has a base of an invalid kind",
                path=self._files[0][0],
                operator=label,
                expected=f"{KeyGroupsHandle.__name__} or {IncrementalHandle.__name__}",
                found=type(handle).__name__,
            )
        stream = self.keyed(label, subtask, handle)
        groups = tuple(
            group for key_group, group in enumerate(stream.groups, stream.first_key_group) if key_group in key_groups
        )
        return replace(stream, first_key_group=max(stream.first_key_group, key_groups.first), groups=groups)

    def _change_sets(self, label: str, subtask: int, delta: ChangelogDelta) -> Iterator[ChangeSet]:
        if isinstance(delta, InMemoryChangelogHandle):
            if delta.changes:
                yield ChangeSet(Extent(0, delta.position, bytes_of_changes(delta)), None)
            return
        for offset, stream in delta.change_sets:
            extent = self._locator.extent(stream)
            if extent is None or offset < 0:
                raise SnapshotError(
                    f"the changelog of subtask {subtask} has a change set without a valid place",
                    path=self._files[0][0],
                    operator=label,
                    found=f"{type(stream).__name__} at {offset}",
                )
            if isinstance(stream, InlineStream | SegmentStream):
                yield ChangeSet(extent, offset)
                continue
            uri, pin = self._files[extent.file]
            if uri not in self._missing_uris:
                # The handle's size counts neither the first byte nor compression (`OutputStreamWithPos`).
                if not 0 <= pin.size - extent.length <= 1 and not is_compressed_log(
                    self._read(Extent(extent.file, 0, min(1, pin.size)))
                ):
                    self._check_size(label, extent)
                extent = extent._replace(length=pin.size)
            yield ChangeSet(extent, offset)

    def other(self, handle: KeyedHandle, subtask: int) -> OtherKeyed:
        """Return keyed state of a kind that cannot be read, with the size of its files."""
        extents = {extent for stream in keyed_streams(handle) if (extent := self._locator.extent(stream))}
        return OtherKeyed(subtask, handle, sum(extent.length for extent in extents))

    def _extent(self, label: str, subtask: int, stream: Stream | None) -> Extent:
        extent = self._locator.extent(stream)
        if extent is None:
            raise SnapshotError(
                f"the keyed state of subtask {subtask} has no stream", path=self._files[0][0], operator=label
            )
        self._check_size(label, extent)
        return extent

    def _check_size(self, label: str, extent: Extent) -> None:
        """Check that a file of operator `label` has its handle's size, or that a merged file has the whole segment."""
        uri, pin = self._files[extent.file]
        whole_size = self._locator.whole_sizes.get(extent.file)
        end = extent.start + extent.length
        if uri not in self._missing_uris and ((whole_size or pin.size) != pin.size or not 0 <= end <= pin.size):
            raise SnapshotError(
                "a file of state does not have the size that its handle records",
                path=uri,
                operator=label,
                expected=f"{whole_size or end} bytes",
                found=f"{pin.size} bytes",
                advice="the file was cut or overwritten: take another snapshot",
            )

    def _timer_services(self, groups: tuple[Extent | None, ...]) -> tuple[TimerService, ...] | None:
        """Return the timer services in raw keyed state; None if it holds no timers.

        The services come from the smallest key group, because all key groups list the same services. Raises
        `HiddenTimerError` if they cannot be listed.
        """
        present_groups = [group for group in groups if group is not None]
        nonempty_groups = [group for group in present_groups if group.length > EMPTY_BLOCK_SIZE] or present_groups
        smallest_group = min(nonempty_groups, key=lambda group: group.length, default=None)
        if smallest_group is None or not len(BLOCK_HEAD) <= smallest_group.length <= HEADER_LIMIT_BYTES:
            return None
        holds_timers = self._read(smallest_group.part(0, len(BLOCK_HEAD))) == BLOCK_HEAD
        return read_services(self._read(smallest_group), self._kryo) if holds_timers else None

    def _groups(
        self, label: str, extent: Extent, handle: KeyGroupsHandle, framing: Framing
    ) -> tuple[Extent | None, ...]:
        with located(path=self._files[extent.file][0], operator=label):
            ranges = group_extents(handle.first_key_group, handle.offsets, extent.length, framing)
        return tuple(None if group is None else extent.part(*group) for group in ranges)

    def _read_keyed_header(self, data: bytes, path: str) -> KeyedHeader:
        return read_keyed_header(data, path).with_kryo(self._kryo)

    def _parsed(
        self,
        read: Callable[[bytes, str], H],
        parsed_headers: dict[bytes, H | None],
        label: str,
        extent: Extent,
        header: bytes,
    ) -> H | None:
        """Return the parsed header; None if it has an unknown serializer, or if its file is missing."""
        if header and header not in parsed_headers:
            try:
                with located(operator=label):
                    parsed_headers[header] = read(header, self._files[extent.file][0])
            except UnknownSerializerError:
                parsed_headers[header] = None
        return parsed_headers.get(header)

    def _header(self, extent: Extent) -> bytes:
        """Return the bytes of a header. Equal headers share memory: thousands of streams may have the same header."""
        header = self._read(extent)
        return self._headers.setdefault(header, header)

    def _read(self, extent: Extent) -> bytes:
        uri, _ = self._files[extent.file]
        if uri in self._missing_uris:
            return b""
        if extent.length > HEADER_LIMIT_BYTES:
            raise SnapshotError(
                "the header of a state stream is too long",
                path=uri,
                expected=f"at most {HEADER_LIMIT_BYTES} bytes before the first key group or element",
                found=extent.length,
            )
        return self._contents.read(extent)


def _offsets_in_bases(entries: Iterable[OperatorState]) -> dict[Stream, tuple[int, ...]]:
    """Return, from all handles, the sorted offsets of the key groups in each stream that is a base of a changelog.

    After a restore at another parallelism, and until state is materialised again, each handle has only some of the
    offsets of a stream (`KeyGroupsStateHandle.getIntersection`).
    """
    offsets: defaultdict[Stream, set[int]] = defaultdict(set)
    for subtask in (subtask for entry in entries for subtask in entry.subtasks):
        keyed_handle = subtask.state and subtask.state.managed_keyed
        for part in keyed_handle.base if isinstance(keyed_handle, ChangelogHandle) else ():
            if isinstance(part, KeyGroupsHandle):
                offsets[part.stream].update(offset for offset in part.offsets if offset > 0)
    return {stream: tuple(sorted(stream_offsets)) for stream, stream_offsets in offsets.items()}
