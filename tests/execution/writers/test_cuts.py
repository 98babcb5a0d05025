"""Copied streams are cut into parts that the store takes, with every byte once and most bytes copied by the store."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import accumulate

from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.execution.writers.cuts import cuts, part_of_a_file, whole_file
from rescale.flink.metadata.handles import HandleTag
from rescale.flink.slot import Slot
from rescale.plan.new_streams import CopiedKeyGroups, TranslatedKeyGroups
from rescale.plan.pieces import Piece, split
from rescale.plan.plan import Plan
from rescale.plan.prepared_files import SourceFile
from rescale.planning.planner import PART_SIZE
from rescale.storage.contract import Pin
from support import snapshots
from support.examples import examples
from support.pipeline import plan_rescale

MIB = 1024 * 1024
GIB = 1024 * MIB
SMALLEST_PART, LARGEST_PART, MOST_PARTS = 5 * MIB, 5 * GIB, 10_000
"""Limits of S3: bytes of a part, and parts of an upload."""


@cache
def plan_on_s3() -> Plan:
    plan = plan_rescale(snapshots.directory("2-clicks"), "/nowhere/target")
    files = tuple(SourceFile(f"s3://bucket/source/{i}", Pin(10 * 1024 * GIB, '"x"')) for i in range(3))
    return replace(plan, target="s3://bucket/target", files=files, part_size=PART_SIZE)


def stream_of(*pieces: tuple[int | None, int, int]) -> CopiedKeyGroups:
    return CopiedKeyGroups(
        subtask=0,
        pieces=tuple(Piece(*piece) for piece in pieces),
        inline=False,
        first_key_group=0,
        key_groups=(),
        slot=Slot.KEYED,
        handle_tag=HandleTag.SAVEPOINT_KEY_GROUPS,
    )


def bytes_copied_by_store(plan: Plan, stream: CopiedKeyGroups) -> int:
    """Return the number of bytes that the store copies."""
    parts = split(stream.pieces, [cut.length for cut in cuts(plan, stream)])
    spans = [part_of_a_file(plan, stream, pieces) for pieces in parts]
    return sum(span.length for span in spans if span is not None)


pieces = st.tuples(
    st.sampled_from([0, 1, 2, None]),
    st.integers(0, GIB),
    st.one_of(st.integers(1, 100), st.integers(1, 40 * MIB), st.integers(4 * MIB, 6 * MIB), st.integers(1, 20 * GIB)),
)


@settings(max_examples=examples(50))
@given(st.lists(pieces, min_size=1, max_size=12))
def test_parts_are_within_the_limits_of_s3(given_pieces: list[tuple[int | None, int, int]]) -> None:
    plan, stream = plan_on_s3(), stream_of(*given_pieces)
    stream_parts = cuts(plan, stream)
    assert [0, *accumulate(cut.length for cut in stream_parts)] == [*(cut.start for cut in stream_parts), stream.size]
    assert all(SMALLEST_PART <= cut.length <= LARGEST_PART for cut in stream_parts[:-1])
    assert 0 < stream_parts[-1].length <= LARGEST_PART
    assert len(stream_parts) <= MOST_PARTS


@settings(max_examples=examples(50))
@given(st.lists(pieces, min_size=1, max_size=12))
def test_store_copies_all_but_short_pieces(given_pieces: list[tuple[int | None, int, int]]) -> None:
    """Tasks write only short pieces, and the bytes that a part needs beside them."""
    plan, stream = plan_on_s3(), stream_of(*given_pieces)
    least_copied_bytes = max(SMALLEST_PART, -(-stream.size // (MOST_PARTS // 2)))
    short_pieces = [piece for piece in stream.pieces if piece.file is None or piece.length < 2 * least_copied_bytes]
    bytes_of_tasks = stream.size - bytes_copied_by_store(plan, stream)
    assert bytes_of_tasks <= sum(piece.length for piece in short_pieces) + (len(short_pieces) + 1) * least_copied_bytes


def test_less_than_a_hundredth_of_a_large_stream_is_written_by_tasks() -> None:
    """The stream has a new header, and pieces of two subtasks of the source."""
    stream = stream_of((None, 0, 700), (0, 10**9, 400 * MIB), (1, 700, 200 * MIB))
    assert stream.size - bytes_copied_by_store(plan_on_s3(), stream) < stream.size / 100


def test_whole_file_is_copied_by_the_store() -> None:
    plan = plan_on_s3()
    plan_of_small_file = replace(plan, files=(SourceFile("s3://bucket/source/1.sst", Pin(60 * MIB, '"x"')),))
    assert whole_file(plan_of_small_file, stream_of((0, 0, 60 * MIB))) is not None
    assert whole_file(plan_of_small_file, stream_of((0, 1, 60 * MIB - 1))) is None, (
        "a part of a file was copied as a whole"
    )
    assert whole_file(replace(plan_of_small_file, target="/target"), stream_of((0, 0, 60 * MIB))) is None, (
        "a file was copied from another store"
    )
    assert whole_file(plan, stream_of((0, 0, 10 * 1024 * GIB))) is None, (
        "a file was copied that is too large for a task to write instead"
    )


def test_number_of_parts_of_a_large_stream_is_within_the_limit() -> None:
    stream = stream_of(*((i % 3, 0, size) for i, size in enumerate((200 * GIB, 7 * MIB, 900 * GIB, 1, 6 * MIB, 9))))
    stream_parts = cuts(plan_on_s3(), stream)
    assert len(stream_parts) <= MOST_PARTS
    assert max(cut.length for cut in stream_parts) <= LARGEST_PART


def test_number_of_parts_of_a_stream_with_thousands_of_pieces_is_within_the_limit() -> None:
    """Such a stream has a piece from each of 11,000 subtasks, each worth a copy."""
    pieces = [(i % 3, 0, 6 * MIB) for i in range(11_000)]
    stream_parts = cuts(plan_on_s3(), stream_of(*pieces))
    assert len(stream_parts) <= MOST_PARTS
    assert all(SMALLEST_PART <= cut.length <= LARGEST_PART for cut in stream_parts[:-1])
    assert sum(cut.length for cut in stream_parts) == 11_000 * 6 * MIB


def test_translated_key_groups_are_not_copied_by_the_store() -> None:
    stream = TranslatedKeyGroups(
        subtask=0,
        pieces=(Piece(0, 0, 100 * MIB, ids=0),),
        inline=False,
        first_key_group=0,
        key_groups=(),
        compressed=False,
    )
    assert part_of_a_file(plan_on_s3(), stream, stream.pieces) is None
