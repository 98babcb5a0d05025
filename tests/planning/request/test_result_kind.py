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
SAME_SHAPE, WIDER_SHAPE, OTHER_MAXIMUM_SHAPE = Shape(2, 128), Shape(3, 128), Shape(2, 256)


def stream_operator(framing: Framing, *headers: KeyedHeader) -> Operator:
    """Return an operator of two subtasks with these headers, or one header for both."""
    subtask_headers = headers * 2 if len(headers) == 1 else headers
    return operator(
        "a", keyed=tuple(own_stream(i, 2, 128, framing, header) for i, header in enumerate(subtask_headers))
    )


CANONICAL_OPERATOR = stream_operator(Framing.CANONICAL, header_of("count"))
HEAP_OPERATOR = stream_operator(Framing.HEAP, header_of("count"))
DIRECTORY_OPERATOR = operator("a", databases=(database(0, 2, 128, 100), database(1, 2, 128, 100)))


@pytest.mark.parametrize(
    ("source_operator", "result_format", "in_databases", "on_heap"),
    [
        (CANONICAL_OPERATOR, KEEP, False, False),
        (CANONICAL_OPERATOR, ROCKSDB, True, False),
        (HEAP_OPERATOR, KEEP, False, True),
        (HEAP_OPERATOR, CANONICAL, False, False),
        (DIRECTORY_OPERATOR, KEEP, True, False),
        (DIRECTORY_OPERATOR, CANONICAL, False, False),
    ],
)
def test_format_and_source_decide_between_directories_and_heap_streams(
    source_operator: Operator, result_format: Format, *, in_databases: bool, on_heap: bool
) -> None:
    assert becomes_databases(source_operator, result_format) is in_databases
    assert stays_on_heap(source_operator, result_format) is on_heap


@pytest.mark.parametrize("source_operator", [CANONICAL_OPERATOR, HEAP_OPERATOR, DIRECTORY_OPERATOR])
def test_another_max_parallelism_moves_every_record(source_operator: Operator) -> None:
    assert is_rewritten_by_record(source_operator, OTHER_MAXIMUM_SHAPE, KEEP)
    assert not is_rewritten_by_record(source_operator, WIDER_SHAPE, KEEP)


@pytest.mark.parametrize(
    ("source_operator", "result_format", "is_by_record"),
    [
        (CANONICAL_OPERATOR, CANONICAL, False),
        (CANONICAL_OPERATOR, ROCKSDB, True),
        (HEAP_OPERATOR, CANONICAL, True),
        (HEAP_OPERATOR, ROCKSDB, True),
        (DIRECTORY_OPERATOR, CANONICAL, True),
        (DIRECTORY_OPERATOR, ROCKSDB, False),
    ],
)
def test_records_are_written_anew_in_another_format(
    source_operator: Operator, result_format: Format, *, is_by_record: bool
) -> None:
    assert is_rewritten_by_record(source_operator, SAME_SHAPE, result_format) is is_by_record


def test_dropped_states_are_taken_out_record_by_record() -> None:
    assert is_rewritten_by_record(replace(CANONICAL_OPERATOR, dropped_states=("count",)), SAME_SHAPE, KEEP)


def test_heap_streams_with_other_states_are_joined_by_record() -> None:
    unlike_operator = stream_operator(Framing.HEAP, header_of("count", "sum"), header_of("sum", "count"))
    assert is_rewritten_by_record(unlike_operator, Shape(1, 128), KEEP), "one subtask would get key groups of both"
    assert not is_rewritten_by_record(unlike_operator, SAME_SHAPE, KEEP), "each subtask gets the key groups of one"
    assert not is_rewritten_by_record(
        stream_operator(Framing.HEAP, header_of("a"), header_of("a")), Shape(1, 128), KEEP
    )


def test_timers_on_the_heap_become_states_beside_canonical_streams() -> None:
    assert keeps_heap_timers(DIRECTORY_OPERATOR, KEEP)
    assert not keeps_heap_timers(DIRECTORY_OPERATOR, CANONICAL)
    assert not keeps_heap_timers(CANONICAL_OPERATOR, KEEP)
    assert keeps_heap_timers(operator("a"), KEEP)


def test_directories_are_joined_only_in_another_shape_of_the_same_maximum() -> None:
    assert joins_databases(DIRECTORY_OPERATOR, WIDER_SHAPE, KEEP)
    assert not joins_databases(DIRECTORY_OPERATOR, SAME_SHAPE, KEEP)
    assert not joins_databases(DIRECTORY_OPERATOR, OTHER_MAXIMUM_SHAPE, KEEP)
    assert not joins_databases(DIRECTORY_OPERATOR, WIDER_SHAPE, CANONICAL)
    assert not joins_databases(CANONICAL_OPERATOR, WIDER_SHAPE, ROCKSDB)
