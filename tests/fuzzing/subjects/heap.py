"""Key groups of the hashmap backend and of raw timers: records lie within the bytes, whatever the header says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fuzzing.subject import Subject, joined, parts_of
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.heap.heap_reader import HeapReader
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import read_services, services_of, timer_header
from rescale.flink.keyed.timers.timer_reader import TimerReader
from support.snapshots import keyed_streams, names, opened

_LARGEST_SEED_BYTES = 2048
_TIMERS = 1


def _seeds() -> Iterator[bytes]:
    """Yield seeds: flags, size of chunks, key group, header and bytes.

    They have the first and the last small key group of each heap stream, and some key groups of raw timers.
    """
    for keyed in keyed_streams():
        if keyed.stream.framing is Framing.HEAP:
            small_groups = [
                (number, content) for number, content in keyed.groups() if len(content) <= _LARGEST_SEED_BYTES
            ]
            for key_group, content in (*small_groups[:1], *small_groups[-1:]):
                yield joined(bytes((0, 50)) + key_group.to_bytes(2, "big"), keyed.stream.header, content)
    for name in names():
        for operator in opened(name).operators:
            for stream in operator.raw_keyed:
                if stream.timer_services:
                    yield from _timer_seeds(name, stream)


def _timer_seeds(name: str, stream: object) -> Iterator[bytes]:
    from support.snapshots import Keyed

    keyed = Keyed(name, opened(name), stream)  # type: ignore[arg-type]
    for key_group, content in list(keyed.groups())[:4]:
        yield joined(bytes((_TIMERS, 50)) + key_group.to_bytes(2, "big"), b"", content)


def _look(data: bytes) -> None:
    head, header, content = parts_of(data, 3)
    head = head.ljust(4, b"\0")
    chunk_size, key_group = head[1] + 1, int.from_bytes(head[2:4], "big") & 0x7FFF
    chunks = [content[at : at + chunk_size] for at in range(0, len(content), chunk_size)]
    if head[0] & _TIMERS:
        services = read_services(content, 2)
        if not services:
            return
        timers_header = timer_header(services)
        assert services_of(timers_header) == services
        _checked_record_counts(TimerReader(timers_header, 32768).read([(key_group, chunks)]), key_group, len(content))
        return
    keyed_header = read_keyed_header(header, "header")
    record_count = sum(
        _checked_record_counts(HeapReader(keyed_header, 32768).read([(key_group, chunks)]), key_group, None)
    )
    assert record_count == sum(
        _checked_record_counts(HeapReader(keyed_header, 32768).read([(key_group, [content])]), key_group, None)
    )
    _checked_record_counts(
        HeapReader(keyed_header, 128, reads_whole_entries=True).read([(key_group, chunks)]), key_group, None
    )


def _checked_record_counts(batches: Iterable[Records], key_group: int, most_records: int | None) -> list[int]:
    """Check the batches, and return the number of records in each."""
    record_counts = []
    for records in batches:
        columns = (column.tolist() for column in (records.key_starts, records.key_ends, records.ends, records.groups))
        for key_start, key_end, end, group in zip(*columns, strict=True):
            assert 0 <= key_start <= key_end <= end <= len(records.data)
            assert group == key_group
        record_counts.append(len(records))
    assert most_records is None or sum(record_counts) <= most_records
    return record_counts


SUBJECT = Subject(_seeds, _look)
