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

_LARGEST_SEED = 2048
_TIMERS = 1


def _seeds() -> Iterator[bytes]:
    """Yield seeds: flags, size of chunks, key group, header and bytes.

    They have the first and the last small key group of each heap stream, and some key groups of raw timers.
    """
    for keyed in keyed_streams():
        if keyed.stream.framing is Framing.HEAP:
            groups = [(number, content) for number, content in keyed.groups() if len(content) <= _LARGEST_SEED]
            for key_group, content in (*groups[:1], *groups[-1:]):
                yield joined(bytes((0, 50)) + key_group.to_bytes(2, "big"), keyed.stream.header, content)
    for name in names():
        for operator in opened(name).operators:
            for stream in operator.raw_keyed:
                if stream.timer_services:
                    yield from _timers(name, stream)


def _timers(name: str, stream: object) -> Iterator[bytes]:
    from support.snapshots import Keyed

    keyed = Keyed(name, opened(name), stream)  # type: ignore[arg-type]
    for key_group, content in list(keyed.groups())[:4]:
        yield joined(bytes((_TIMERS, 50)) + key_group.to_bytes(2, "big"), b"", content)


def _look(data: bytes) -> None:
    head, header, content = parts_of(data, 3)
    head = head.ljust(4, b"\0")
    size, key_group = head[1] + 1, int.from_bytes(head[2:4], "big") & 0x7FFF
    chunks = [content[at : at + size] for at in range(0, len(content), size)]
    if head[0] & _TIMERS:
        services = read_services(content, 2)
        if not services:
            return
        timers_header = timer_header(services)
        assert services_of(timers_header) == services
        _counts_of_batches(TimerReader(timers_header, 32768).read([(key_group, chunks)]), key_group, len(content))
        return
    read = read_keyed_header(header, "header")
    whole = sum(_counts_of_batches(HeapReader(read, 32768).read([(key_group, chunks)]), key_group, None))
    assert whole == sum(_counts_of_batches(HeapReader(read, 32768).read([(key_group, [content])]), key_group, None))
    _counts_of_batches(HeapReader(read, 128, reads_whole_entries=True).read([(key_group, chunks)]), key_group, None)


def _counts_of_batches(batches: Iterable[Records], key_group: int, most: int | None) -> list[int]:
    """Check the batches, and return the number of records in each."""
    sizes = []
    for records in batches:
        columns = (column.tolist() for column in (records.key_starts, records.key_ends, records.ends, records.groups))
        for begin, limit, end, group in zip(*columns, strict=True):
            assert 0 <= begin <= limit <= end <= len(records.data)
            assert group == key_group
        sizes.append(len(records))
    assert most is None or sum(sizes) <= most
    return sizes


SUBJECT = Subject(_seeds, _look)
