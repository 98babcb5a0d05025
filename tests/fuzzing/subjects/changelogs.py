"""Changes of a changelog, replayed without materialised state: the sizes of chunks make no difference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fuzzing.subject import Subject, joined, parts_of
from rescale.flink.encoding.snappy import compressed
from rescale.flink.keyed.changelog.change_sets import (
    METADATA_KEY_GROUP,
    LoggedChange,
    read_change_set,
    read_in_memory_changes,
)
from rescale.flink.keyed.changelog.logged_states import read_change_head, read_logged_state
from rescale.flink.keyed.changelog.overlay import Overlay
from rescale.flink.keyed.changelog.parsed_changes import RawChange
from rescale.flink.keyed.header import read_keyed_header
from rescale.text.errors import SnapshotError
from support.snapshots import content, names, opened

_AS_IT_STANDS, _COMPRESSED, _LISTED = range(3)
_LARGEST_SEED_BYTES = 6 * 1024
_MAX_PARALLELISM = 128


def _seeds() -> Iterator[bytes]:
    """Yield seeds: kind of log, size of chunks, begin of the change set, header of all states, and bytes of the log."""
    for name in names():
        for operator in opened(name).operators:
            for changelog in operator.changelogs:
                for change in changelog.changes:
                    data = content(opened(name), change.extent)
                    kind = _LISTED if change.offset is None else _AS_IT_STANDS
                    begin = max(change.offset or 0, 0)
                    if kind == _AS_IT_STANDS and data[:1] == b"\0":
                        data, begin = b"\0" + data[1 + begin :][:_LARGEST_SEED_BYTES], 0
                        yield _seed(_COMPRESSED, 0, changelog.header, data[1:])
                    if len(data) <= 2 * _LARGEST_SEED_BYTES and begin < 1 << 16:
                        yield _seed(kind, begin, changelog.header, data)


def _seed(kind: int, begin: int, header: bytes, data: bytes) -> bytes:
    return joined(bytes((kind, 50)) + begin.to_bytes(2, "big"), header, data)


def _look(data: bytes) -> None:
    head, header, log = parts_of(data, 3)
    head = head.ljust(4, b"\0")
    kind, chunk_size, begin = head[0] % 3, head[1] + 1, int.from_bytes(head[2:4], "big")
    if kind == _COMPRESSED:
        log = b"\1" + b"".join(compressed([log]))
    changes = list(_changes(kind, [log], begin))
    assert changes == list(_changes(kind, [log[at : at + chunk_size] for at in range(0, len(log), chunk_size)], begin))
    state_index_by_id: dict[int, int] = {}
    keyed_header = read_keyed_header(header, "header")
    index_by_name = {state.name: i for i, state in enumerate(keyed_header.states)}
    parsed_changes = []
    for key_group, change in changes:
        if key_group == METADATA_KEY_GROUP:
            state = read_logged_state(change)
            state_index_by_id[state.id] = index_by_name.get(state.info.name, 0)
            continue
        _, state_id = read_change_head(change)
        if state_id not in state_index_by_id:
            raise SnapshotError("the log does not describe the state of a change")
        parsed_changes.append(RawChange(state_index_by_id[state_id], key_group, change))
    if not keyed_header.states or not all(0 <= change.key_group < _MAX_PARALLELISM for change in parsed_changes):
        return
    for records in Overlay(parsed_changes, keyed_header, _MAX_PARALLELISM).remaining():
        for key_start, key_end, end, group in zip(
            records.key_starts.tolist(),
            records.key_ends.tolist(),
            records.ends.tolist(),
            records.groups.tolist(),
            strict=True,
        ):
            assert 0 < key_start <= key_end <= key_end + 4 <= end <= len(records.data)
            assert int.from_bytes(records.data[key_end : key_end + 4].tobytes(), "big") == end - key_end - 4
            assert 0 <= group < _MAX_PARALLELISM


def _changes(kind: int, chunks: Iterable[bytes], begin: int) -> Iterator[LoggedChange]:
    return read_in_memory_changes(chunks) if kind == _LISTED else read_change_set(chunks, begin)


SUBJECT = Subject(_seeds, _look)
