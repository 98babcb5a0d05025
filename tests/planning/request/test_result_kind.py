"""How the keyed state of one operator is kept in the result, for each format and kind of state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.key_group_table import Framing
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.request.result_files import Format
from rescale.planning.request.result_kind import (
    becomes_databases,
    is_rewritten_by_record,
    joins_databases,
    keeps_heap_timers,
    stays_on_heap,
)
from rescale.snapshot.model import Operator
from support.synthetic import database, header_of, operator, own_stream

KEEP, CANONICAL, ROCKSDB = Format.KEEP, Format.CANONICAL, Format.ROCKSDB
SAME, WIDER, ANOTHER_MAXIMUM = Shape(2, 128), Shape(3, 128), Shape(2, 256)


def streams(framing: Framing, *headers: KeyedHeader) -> Operator:
    """Return an operator of two subtasks with these headers, or one header for both."""
    each = headers * 2 if len(headers) == 1 else headers
    return operator("a", keyed=tuple(own_stream(i, 2, 128, framing, header) for i, header in enumerate(each)))


DELIMITED = streams(Framing.CANONICAL, header_of("count"))
HEAP = streams(Framing.HEAP, header_of("count"))
DIRECTORIES = operator("a", databases=(database(0, 2, 128, 100), database(1, 2, 128, 100)))


@pytest.mark.parametrize(
    ("kind", "result_format", "databases", "heap"),
    [
        (DELIMITED, KEEP, False, False),
        (DELIMITED, ROCKSDB, True, False),
        (HEAP, KEEP, False, True),
        (HEAP, CANONICAL, False, False),
        (DIRECTORIES, KEEP, True, False),
        (DIRECTORIES, CANONICAL, False, False),
    ],
)
def test_format_and_source_decide_between_directories_and_heap_streams(
    kind: Operator, result_format: Format, *, databases: bool, heap: bool
) -> None:
    assert becomes_databases(kind, result_format) is databases
    assert stays_on_heap(kind, result_format) is heap


@pytest.mark.parametrize("kind", [DELIMITED, HEAP, DIRECTORIES])
def test_another_max_parallelism_moves_every_record(kind: Operator) -> None:
    assert is_rewritten_by_record(kind, ANOTHER_MAXIMUM, KEEP)
    assert not is_rewritten_by_record(kind, WIDER, KEEP)


@pytest.mark.parametrize(
    ("kind", "result_format", "by_record"),
    [
        (DELIMITED, CANONICAL, False),
        (DELIMITED, ROCKSDB, True),
        (HEAP, CANONICAL, True),
        (HEAP, ROCKSDB, True),
        (DIRECTORIES, CANONICAL, True),
        (DIRECTORIES, ROCKSDB, False),
    ],
)
def test_records_are_written_anew_in_another_format(kind: Operator, result_format: Format, *, by_record: bool) -> None:
    assert is_rewritten_by_record(kind, SAME, result_format) is by_record


def test_dropped_states_are_taken_out_record_by_record() -> None:
    assert is_rewritten_by_record(replace(DELIMITED, dropped_states=("count",)), SAME, KEEP)


def test_heap_streams_with_other_states_are_joined_by_record() -> None:
    different = streams(Framing.HEAP, header_of("count", "sum"), header_of("sum", "count"))
    assert is_rewritten_by_record(different, Shape(1, 128), KEEP), "one subtask would get key groups of both"
    assert not is_rewritten_by_record(different, SAME, KEEP), "each subtask gets the key groups of one"
    assert not is_rewritten_by_record(streams(Framing.HEAP, header_of("a"), header_of("a")), Shape(1, 128), KEEP)


def test_timers_on_the_heap_become_states_beside_canonical_streams() -> None:
    assert keeps_heap_timers(DIRECTORIES, KEEP)
    assert not keeps_heap_timers(DIRECTORIES, CANONICAL)
    assert not keeps_heap_timers(DELIMITED, KEEP)
    assert keeps_heap_timers(operator("a"), KEEP)


def test_directories_are_joined_only_in_another_shape_of_the_same_maximum() -> None:
    assert joins_databases(DIRECTORIES, WIDER, KEEP)
    assert not joins_databases(DIRECTORIES, SAME, KEEP)
    assert not joins_databases(DIRECTORIES, ANOTHER_MAXIMUM, KEEP)
    assert not joins_databases(DIRECTORIES, WIDER, CANONICAL)
    assert not joins_databases(DELIMITED, WIDER, ROCKSDB)
