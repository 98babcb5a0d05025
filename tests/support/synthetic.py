"""Synthetic snapshots with just enough content for a plan."""

from __future__ import annotations

from rescale.flink.key_groups import key_group_range
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header, write_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.checkpoint_metadata import Metadata, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink.operator_id import operator_id_of_uid
from rescale.flink.operator_state import OperatorStateHeader, write_operator_state_header
from rescale.snapshot.keyed_state import Database, DatabaseFile, KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementState, ElementStream, Operator, Snapshot
from rescale.storage.store import Pin
from support.snapshot_bytes import keyed_header, keyed_state

GROUP_SIZE = 10
"""Bytes of every key group and of every element."""

RAW_TAG, CANONICAL_TAG = 12, 7


def header_of(*names: str) -> KeyedHeader:
    """Return the header of keyed states with these names."""
    return read_keyed_header(keyed_header(*map(keyed_state, names)), "")


def operator(
    uid: str,
    parallelism: int = 2,
    max_parallelism: int = 128,
    *,
    keyed: tuple[KeyedStream, ...] = (),
    raw_keyed: tuple[KeyedStream, ...] = (),
    elements: tuple[ElementStream, ...] = (),
    raw_elements: tuple[ElementStream, ...] = (),
    channel_bytes: int = 0,
    finished: tuple[int, ...] = (),
    label: str | None = None,
    databases: tuple[Database, ...] = (),
) -> Operator:
    """Return an operator with the given streams; `finished` has the numbers of the finished subtasks."""
    entry = OperatorState(
        operator_id=operator_id_of_uid(uid),
        name="",
        uid="",
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        coordinator=None,
        subtasks=tuple(
            Subtask(i, i in finished, None if i in finished else SubtaskState()) for i in range(parallelism)
        ),
    )
    return Operator(entry, label or uid, keyed, raw_keyed, elements, raw_elements, (), channel_bytes, databases)


def snapshot(*operators: Operator, missing: tuple[str, ...] = (), directory: str = "/source") -> Snapshot:
    """Return a snapshot of the operators; file 0 is `_metadata`, and all files of the streams made here exist."""
    files = [(f"{directory}/_metadata", Pin(9)), *((f"{directory}/{n}", Pin(1 << 20)) for n in range(1, 100))]
    metadata = Metadata(6, 1, (), tuple(operator.entry for operator in operators), b"")
    return Snapshot(
        directory, metadata, b"_metadata", SnapshotType.CANONICAL_SAVEPOINT, tuple(files), missing, None, operators
    )


def keyed_stream(
    subtask: int,
    groups: dict[int, int],
    framing: Framing,
    header: KeyedHeader | bytes = b"",
    *,
    first: int,
    last: int,
    file: int | None = None,
) -> KeyedStream:
    """Return a stream of key groups `first` to `last`; `groups` has their sizes, `file` is by default `subtask` + 1."""
    raw = header if isinstance(header, bytes) else write_keyed_header(header)
    number, at, extents = subtask + 1 if file is None else file, len(raw), []
    for key_group in range(first, last + 1):
        size = groups.get(key_group)
        extents.append(None if size is None else Extent(number, at, size))
        at += size or 0
    return KeyedStream(
        subtask,
        CANONICAL_TAG if framing is Framing.CANONICAL else RAW_TAG,
        Extent(number, 0, at),
        framing,
        first,
        tuple(extents),
        raw,
        None if isinstance(header, bytes) else header,
    )


def own_stream(
    subtask: int, parallelism: int, max_parallelism: int, framing: Framing, header: KeyedHeader | bytes = b""
) -> KeyedStream:
    """Return the stream of a subtask, with every key group of its range."""
    own = key_group_range(max_parallelism, parallelism, subtask)
    groups = dict.fromkeys(range(own.first, own.last + 1), GROUP_SIZE)
    return keyed_stream(subtask, groups, framing, header, first=own.first, last=own.last)


def database(subtask: int, parallelism: int, max_parallelism: int, size: int) -> Database:
    """Return the RocksDB directory of a subtask, with `size` bytes in one file and an empty header."""
    own = key_group_range(max_parallelism, parallelism, subtask)
    files = (DatabaseFile("000009.sst", Extent(subtask + 1, 0, size)),)
    return Database(subtask, own, Extent(subtask + 1, size, 0), b"", None, files)


def element_stream(
    subtask: int, states: dict[str, tuple[DistributionMode, int]], header: OperatorStateHeader | bytes = b""
) -> ElementStream:
    """Return a stream in file `subtask` + 1 with this number of elements of each state."""
    raw = header if isinstance(header, bytes) else write_operator_state_header(header)
    at, element_states = len(raw), []
    for name, (mode, count) in states.items():
        elements = tuple(Extent(subtask + 1, at + i * GROUP_SIZE, GROUP_SIZE) for i in range(count))
        element_states.append(ElementState(name, mode, elements))
        at += count * GROUP_SIZE
    return ElementStream(
        subtask, Extent(subtask + 1, 0, at), tuple(element_states), raw, None if isinstance(header, bytes) else header
    )
