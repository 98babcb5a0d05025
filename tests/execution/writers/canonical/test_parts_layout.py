"""From write ranges to the parts of a file: every byte once and in its place, in parts that the store takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.execution.writers.canonical.canonical_writer import merge_staged_parts
from rescale.execution.writers.canonical.parts_layout import Merge, PartsWork, stream_parts
from rescale.execution.writers.canonical.range_parts import RangeParts
from rescale.execution.writers.files import number_of_parts, part_size
from rescale.execution.writers.protocol import WriteRange
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.storage.contract import PartLimits
from support import snapshots
from support.examples import examples
from support.pipeline import plan_rescale

UPLOAD_ID = "upload"


@cache
def some_plan() -> Plan:
    return plan_rescale(snapshots.directory("2-clicks"), "/nowhere/target", ["1"], max_parallelism=["1000"])


def plan_with(part_size: int) -> Plan:
    return replace(some_plan(), part_size=part_size)


def rekeyed_operator_index(plan: Plan) -> int:
    return next(i for i, operator in enumerate(plan.operators) if operator.rekeying is not None)


def ranges(sizes: Sequence[int]) -> list[tuple[WriteRange, int]]:
    operator_index = rekeyed_operator_index(some_plan())
    return [(WriteRange(operator_index, 0, 10 * i, 10 * i + 9, i), size) for i, size in enumerate(sizes)]


def merges(part_works: Sequence[PartsWork]) -> list[Merge]:
    return [part_work.merge for part_work in part_works if part_work.merge is not None]


@dataclass
class Uploads:
    """A store that takes parts in any order, as (offset, bytes) by number, and staged objects."""

    parts: dict[int, tuple[int, bytes]] = field(default_factory=dict)
    staged: dict[str, bytes] = field(default_factory=dict)

    def put(self, uri: str, data: bytes) -> None:
        assert uri not in self.staged
        self.staged[uri] = data

    def read_all(self, uri: str, _: int) -> tuple[bytes, None]:
        return self.staged[uri], None

    def put_part(self, _: str, upload_id: str, number: int, offset: int, data: bytes) -> str:
        assert upload_id == UPLOAD_ID
        assert number not in self.parts
        self.parts[number] = (offset, data)
        return f"receipt {number}"


def write_all(plan: Plan, part_works: Sequence[PartsWork], content: bytes, chunk_bytes: int) -> Uploads:
    """Return the uploads after every range is written, in chunks of `chunk_bytes` bytes, and all parts are merged."""
    store, position = Uploads(), 0
    with (
        patch("rescale.execution.writers.canonical.range_parts.open_store", lambda _: store),
        patch("rescale.execution.writers.canonical.canonical_writer.open_store", lambda _: store),
    ):
        for part_work in part_works:
            sink = RangeParts("/nowhere/target/stream", part_work)
            for i in range(position, position + part_work.size, chunk_bytes):
                sink.write(content[i : min(i + chunk_bytes, position + part_work.size)])
            assert sink.size == part_work.size
            receipts = sink.close()
            assert receipts == [
                f"receipt {part_number}"
                for part_number in range(part_work.part_number, part_work.part_number + len(receipts))
            ]
            position += part_work.size
        for merge in merges(part_works):
            assert merge_staged_parts(plan, merge) == (merge, f"receipt {merge.part_number}")
    assert sorted(store.staged) == sorted(uri for merge in merges(part_works) for uri in merge.staged_uris)
    return store


def part_limits(smallest_part: int) -> PartLimits:
    return PartLimits(smallest_part, 10_000)


sizes = st.lists(st.one_of(st.integers(0, 60), st.integers(0, 3)), min_size=2, max_size=12).filter(any)


@given(sizes, st.integers(1, 20), st.integers(1, 20), st.integers(1, 30))
def test_every_byte_is_written_once_and_in_its_place(
    sizes: list[int], part_size: int, smallest_part: int, chunk_bytes: int
) -> None:
    part_size = max(part_size, smallest_part)
    plan = plan_with(part_size)
    content = bytes(i % 251 for i in range(sum(sizes)))
    part_works = stream_parts(plan, 0, "stream", UPLOAD_ID, ranges(sizes), part_limits(smallest_part))
    assert [part_work.size for part_work in part_works] == [size for size in sizes if size], (
        "the work is not that of the ranges with bytes"
    )
    assert [part_work.is_first for part_work in part_works] == [i == 0 for i in range(len(part_works))]
    parts = write_all(plan, part_works, content, chunk_bytes).parts
    assert sorted(parts) == list(range(1, len(parts) + 1))
    position = 0
    for part_number in sorted(parts):
        offset, data = parts[part_number]
        assert offset == position
        assert data == content[position : position + len(data)]
        assert part_number == len(parts) or len(data) >= smallest_part
        assert 0 < len(data) < smallest_part + 3 * part_size, "a task holds a part that is too large"
        position += len(data)
    assert position == len(content)


def test_only_small_ranges_are_staged() -> None:
    part_works = stream_parts(
        plan_with(10), 0, "stream", UPLOAD_ID, ranges([3, 3, 3, 50, 10, 4, 45, 2]), part_limits(10)
    )
    staging = places_of(plan_with(10)).staging
    assert [part_work.staged_bytes for part_work in part_works] == [3, 3, 3, 10, 0, 4, 10, 0]
    assert [(merge.part_number, merge.offset, len(merge.staged_uris)) for merge in merges(part_works)] == [
        (1, 0, 4),
        (7, 69, 2),
    ]
    assert merges(part_works)[1].staged_uris == tuple(part_work.staging_uri for part_work in part_works[5:7])
    assert all(
        part_work.staging_uri.startswith(f"{staging}/stream-") for part_work in part_works if part_work.staged_bytes
    )


def test_two_runs_of_a_plan_stage_in_different_places() -> None:
    """The runs may have cut the stream differently."""
    staged_uris = []
    for upload_id, sizes in (("one", [3, 20, 9, 9]), ("another", [4, 19, 9, 9])):
        part_works = stream_parts(plan_with(10), 0, "stream", upload_id, ranges(sizes), part_limits(10))
        staged_uris.append({uri for merge in merges(part_works) for uri in merge.staged_uris})
    assert all(staged_uris)
    assert not staged_uris[0] & staged_uris[1]


def test_nothing_is_staged_for_a_store_that_takes_parts_of_any_size() -> None:
    part_works = stream_parts(plan_with(10), 0, "stream", UPLOAD_ID, ranges([3, 3, 0, 50, 1]), part_limits(1))
    assert merges(part_works) == []
    assert [(part_work.part_number, part_work.offset, part_work.staged_bytes) for part_work in part_works] == [
        (1, 0, 0),
        (2, 3, 0),
        (3, 6, 0),
        (8, 56, 0),
    ]


MIB = 1 << 20
large_sizes = st.lists(st.integers(0, 1 << 36), min_size=2, max_size=20)


@settings(max_examples=examples(30))
@given(large_sizes, st.integers(1, 1000), st.booleans())
def test_number_of_parts_is_within_the_limit_of_s3(sizes: list[int], repeat_count: int, is_shuffled: bool) -> None:
    """Up to 20,000 ranges of all sizes make up the stream."""
    sizes = sizes * repeat_count if is_shuffled else sorted(sizes * repeat_count)
    plan = plan_with(16 * MIB)
    part_works = stream_parts(plan, 0, "stream", UPLOAD_ID, ranges(sizes), part_limits(5 * MIB))
    stream_part_size = part_size(plan, sum(sizes))
    last_part_number = max(
        [merge.part_number for merge in merges(part_works)]
        + [
            part_work.part_number + number_of_parts(part_work.size - part_work.staged_bytes, stream_part_size) - 1
            for part_work in part_works
        ],
        default=0,
    )
    assert last_part_number <= 10_000


def test_parts_of_a_range_have_one_size_except_the_last() -> None:
    assert [number_of_parts(size, 10) for size in (0, 1, 9, 10, 19, 20, 29, 30)] == [0, 1, 1, 1, 1, 2, 2, 3]
    assert part_size(plan_with(16 * MIB), 1 << 30) == 16 * MIB
    assert part_size(plan_with(16 * MIB), 1 << 40) == -(-(1 << 40) // 5000)
