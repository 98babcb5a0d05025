"""Timers in raw keyed state: recognised, read as the records that canonical state has for them, and written back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink.keyed.timers import timer_reader
from rescale.flink.keyed.timers.heap_timers import read_services, services_of, timer_header
from rescale.flink.keyed.timers.timer_reader import TimerReader
from rescale.flink.keyed.timers.timer_writer import TimerWriter
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import SnapshotError, UnsupportedError
from support import snapshots
from support.canonical import Record
from support.composite import TIME_WINDOW, timer
from support.examples import examples
from support.heap import read, runs_of
from support.heap_timers import HEAD, Service, Timer, write_block
from support.java_values import HASHABLE_LEAVES
from support.rekeyed import contents
from support.snapshot_bytes import CUSTOM, LONG, STRING, VOID_NAMESPACE, i32, utf

TEXT = HASHABLE_LEAVES["String"]
TEXTS = st.one_of(TEXT.values, st.just((7,) * 300)).map(TEXT.write)
TIMES = st.integers(-(1 << 63), (1 << 63) - 1)
NAMESPACES = {
    "user-timers": (VOID_NAMESPACE, st.just(b"\0")),
    "window-timers": (TIME_WINDOW, st.binary(min_size=16, max_size=16)),
    "named": (STRING, TEXTS),
}
SERVICES = [Service(name, STRING, namespace) for name, (namespace, _) in NAMESPACES.items()]
EMPTY_BLOCK = write_block(*SERVICES)
WINDOW_SERVICE = SERVICES[1]._replace(events=[Timer(-5, TEXT.write((65,)), bytes(16))], processing=[])
FIXTURES = ("1.20-rocksdb-heap-timers", "2-rocksdb-heap-timers")


def services(name: str) -> st.SearchStrategy[Service]:
    snapshot, namespaces = NAMESPACES[name]
    timers = st.lists(st.builds(Timer, TIMES, TEXTS, namespaces), max_size=5)
    return st.builds(Service, st.just(name), st.just(STRING), st.just(snapshot), timers, timers)


def reader_of(block: bytes, max_parallelism: int = 128) -> TimerReader:
    services = read_services(block, 2)
    assert services
    return TimerReader(timer_header(services), max_parallelism)


@given(st.lists(st.sets(st.sampled_from(list(NAMESPACES))), max_size=4), st.integers(1, 400), st.data())
@settings(max_examples=examples(60))
def test_raw_timers_are_read_as_records(service_names: list[set[str]], chunk_size: int, data: st.DataObject) -> None:
    """Chunks may have any size, batches are small, and some key groups lack some of the timer services."""
    blocks = [[data.draw(services(name)) for name in sorted(names)] for names in service_names]
    expected = [
        (group, Record(2 * service_index + is_event, timer(time, key, namespace), b""))
        for group, block in enumerate(blocks)
        for service in block
        for service_index in [list(NAMESPACES).index(service.name)]
        for is_event, timers in ((1, service.events), (0, service.processing))
        for time, key, namespace in timers
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timer_reader, "BUFFER_SIZE", 200)
        patch.setattr(timer_reader, "RECORDS_AT_ONCE", 3)
        reader = reader_of(EMPTY_BLOCK, data.draw(st.sampled_from([128, 129])))
        assert read(reader, {i: write_block(*block) for i, block in enumerate(blocks)}, chunk_size) == expected


def rewritten_block(
    block: bytes, template_block: bytes, max_parallelism: int, new_max_parallelism: int, cuts: Sequence[int] = ()
) -> bytes:
    """Return a key group with the services of `template_block`, from the block's records; for `cuts`, see `runs_of`."""
    runs = runs_of(read(reader_of(template_block, max_parallelism), {7: block}), new_max_parallelism, cuts)
    writer = TimerWriter(timer_header(read_services(template_block, 2) or ()), new_max_parallelism)
    return b"".join(map(bytes, writer.write(7, runs)))


@given(st.sampled_from([128, 129]), st.sampled_from([100, 1000]), st.lists(st.integers(1, 5), max_size=3), st.data())
@settings(max_examples=examples(60))
def test_raw_timers_are_written_back_byte_for_byte(
    old_max_parallelism: int, new_max_parallelism: int, cuts: list[int], data: st.DataObject
) -> None:
    block = write_block(*(data.draw(services(name)) for name in NAMESPACES))
    assert rewritten_block(block, EMPTY_BLOCK, old_max_parallelism, new_max_parallelism, cuts) == block


@pytest.mark.parametrize("name", FIXTURES)
def test_raw_timers_of_flink_are_written_back_byte_for_byte(name: str) -> None:
    snapshot = snapshots.opened(name)
    streams = [stream for operator in snapshot.operators for stream in operator.raw_timers]
    blocks = [block for stream in streams for _, block in contents(snapshot, stream)]
    assert len(blocks) == 200
    assert len(set(map(len, blocks))) > 1
    assert [rewritten_block(block, blocks[0], 200, 1000) for block in blocks] == blocks


def test_a_key_group_without_timers_lists_the_services() -> None:
    assert TimerWriter(timer_header(read_services(EMPTY_BLOCK, 2) or ()), 128).empty(7) == EMPTY_BLOCK


@pytest.mark.parametrize("name", FIXTURES)
def test_states_of_raw_timers_equal_those_of_flinks_canonical_savepoint(name: str) -> None:
    canonical_snapshot = open_snapshot(str(snapshots.FIXTURES / name / "canonical"))
    canonical_headers = {stream.parsed for operator in canonical_snapshot.operators for stream in operator.keyed}
    streams = [stream for operator in snapshots.opened(name).operators for stream in operator.raw_keyed]
    assert len(streams) == 2
    for stream in streams:
        assert stream.timer_services
        assert stream.parsed is not None
        assert services_of(stream.parsed) == stream.timer_services
        assert [stream.parsed.states == header.states[-2:] for header in canonical_headers if header] == [True]


def test_block_without_timer_services_is_read_as_empty() -> None:
    assert read_services(write_block(), 2) == ()


@pytest.mark.parametrize(
    "block",
    [
        b"",
        HEAD,
        b"something of the user's own",
        HEAD[:4] + i32(3) + EMPTY_BLOCK[8:],
        EMPTY_BLOCK + b"\0",
        HEAD + i32(1) + utf("unknown") + CUSTOM + VOID_NAMESPACE + i32(0, 0),
        HEAD + i32(1) + utf("unknown") + LONG + CUSTOM + i32(0, 0),
        write_block(SERVICES[0], SERVICES[0]),
        write_block(WINDOW_SERVICE)[:-5] + i32(0),
        *(write_block(WINDOW_SERVICE)[:end] for end in range(8, len(write_block(WINDOW_SERVICE)), 7)),
    ],
)
def test_raw_state_other_than_timers_is_not_read(block: bytes) -> None:
    assert read_services(block, 2) is None


def test_timer_service_missing_in_the_header_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="key group 9 has a timer service that") as caught:
        read(reader_of(write_block(WINDOW_SERVICE)), {3: write_block(WINDOW_SERVICE), 9: write_block(SERVICES[2])})
    assert caught.value.found == "'named'"
    assert caught.value.advice


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"something else", "does not begin"),
        (write_block(WINDOW_SERVICE) + b"\0", "bytes after"),
        (
            write_block(WINDOW_SERVICE._replace(key=LONG)),
            "timers of window-timers whose serializers differ from those in other key groups",
        ),
        (write_block(WINDOW_SERVICE)[:-3], "ends too early"),
        (write_block(WINDOW_SERVICE)[:-14], "cannot be read: the data ends inside the key"),
        (write_block(WINDOW_SERVICE)[:-4] + i32(-1), "a negative number"),
    ],
)
def test_damaged_timer_block_is_refused_with_its_key_group(block: bytes, message: str) -> None:
    with pytest.raises(SnapshotError, match=f"key group 9 of .*{message}") as caught:
        read(reader_of(write_block(WINDOW_SERVICE)), {3: write_block(WINDOW_SERVICE), 9: block}, 11)
    assert 0 <= (caught.value.offset or 0) <= len(block)
