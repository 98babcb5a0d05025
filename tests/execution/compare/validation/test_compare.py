"""Comparison in one task, on files of a few bytes: key groups in any order, files, and elements of one side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from rescale.execution.compare.validation.compare import Comparer, ElementCheck, FileCheck, GroupCheck, Tally
from rescale.execution.compare.validation.coverage import FilePair, GroupPair
from rescale.execution.sources.byte_digests import MODULUS, digest
from rescale.flink.encoding.snappy import plain_stream
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import IntegrityError, SnapshotError, StoreError
from support.canonical import Record, write_group

SOURCE, RESULT = b"..abcdefgh", b"....abcdefgh"
MakeComparer = Callable[[bytes, bytes], Comparer]


@pytest.fixture
def comparer(tmp_path: Path) -> MakeComparer:
    """Return a function that makes a comparer of a source and a result, each with one file, number 1."""

    def make(source: bytes, result: bytes) -> Comparer:
        sides = []
        for name, data in (("source", source), ("result", result)):
            path = tmp_path / name
            path.write_bytes(data)
            sides.append(SnapshotFiles(((str(tmp_path / "none"), None), (str(path), None))))
        return Comparer(*sides)

    return make


def group_pairs(*lengths: int, starts: tuple[int, int] = (2, 4), first_key_group: int = 5) -> tuple[GroupPair, ...]:
    pairs, length_before = [], 0
    for i, length in enumerate(lengths):
        source, result = (Extent(1, begin + length_before, length) for begin in starts)
        pairs.append(GroupPair(first_key_group + i, source, result))
        length_before += length
    return tuple(pairs)


def group_check(pairs: Sequence[GroupPair]) -> GroupCheck:
    return GroupCheck(3, "op", Slot.RAW_KEYED, tuple(pairs))


def test_key_groups_are_summed_up_in_one_digest(comparer: MakeComparer) -> None:
    tally = comparer(SOURCE, RESULT)(group_check(group_pairs(3, 0, 5)))
    parts = zip((b"abc", b"", b"defgh"), range(5, 8), strict=True)
    expected = sum(digest([digest([data]).to_bytes(16, "little")], seed=group) for data, group in parts) % MODULUS
    assert tally == Tally(3, Slot.RAW_KEYED, True, 0, "", None, 3, 8, expected)


def test_digest_depends_on_which_key_group_has_which_bytes(comparer: MakeComparer) -> None:
    tally = comparer(SOURCE, RESULT)(group_check(group_pairs(3, 5)))
    other_pairs = [group_pairs(3, 5, first_key_group=6), group_pairs(5, 3), group_pairs(8)]
    assert tally.digest_sum not in [comparer(SOURCE, RESULT)(group_check(pairs)).digest_sum for pairs in other_pairs]


@pytest.mark.parametrize("byte_index", range(8))
def test_changed_byte_of_key_group_is_found(byte_index: int, comparer: MakeComparer) -> None:
    changed_result = bytearray(RESULT)
    changed_result[4 + byte_index] ^= 1
    with pytest.raises(
        IntegrityError, match=f"key group {5 if byte_index < 3 else 6} differs between the result and the source"
    ) as caught:
        comparer(SOURCE, bytes(changed_result))(group_check(group_pairs(3, 5)))
    assert (caught.value.operator, caught.value.offset) == ("op", 4 if byte_index < 3 else 7)
    assert str(caught.value.path).endswith("/result")
    assert str(caught.value.expected).startswith("digest ")
    assert str(caught.value.found).startswith("digest ")
    assert caught.value.expected != caught.value.found
    assert "is published, run again into another target; else discard it" in str(caught.value.advice)


def test_different_lengths_are_found(comparer: MakeComparer) -> None:
    first, second = group_pairs(3, 5)
    shorter = second._replace(result=Extent(1, 7, 4))
    with pytest.raises(IntegrityError, match="key group 6"):
        comparer(SOURCE, RESULT)(group_check((first, shorter)))
    with pytest.raises(IntegrityError, match="key group 5"):
        comparer(SOURCE, RESULT)(group_check((first._replace(source=Extent(1, 2, 2)),)))


def test_key_group_missing_in_source_must_be_an_empty_block(comparer: MakeComparer) -> None:
    pair = GroupPair(9, None, Extent(1, 4, 3), filler=b"abc")
    tally = comparer(b"", RESULT)(group_check((pair,)))
    assert (tally.item_count, tally.size) == (1, 3)
    with pytest.raises(IntegrityError, match="key group 9"):
        comparer(b"", RESULT)(group_check((pair._replace(filler=b"abd"),)))


def group_of_two_states(first_id: int, second_id: int) -> bytes:
    return write_group(0, [Record(first_id, b"k", b"v"), Record(second_id, b"l", b"w")], 128)


@pytest.mark.parametrize("compressed", [False, True])
def test_state_ids_are_translated(compressed: bool, comparer: MakeComparer) -> None:
    def stored(data: bytes) -> bytes:
        return plain_stream(data) if compressed else data

    source, result, wrong_result = (stored(group_of_two_states(*ids)) for ids in ((0, 1), (1, 0), (0, 1)))
    whole = Extent(1, 0, len(source))
    pair = GroupPair(0, whole, whole, (1, 0), compressed)
    assert comparer(source, result)(group_check((pair,))).item_count == 1
    with pytest.raises(IntegrityError, match="key group 0"):
        comparer(source, wrong_result)(group_check((pair,)))


def test_files_are_compared_as_a_whole(comparer: MakeComparer) -> None:
    pair = FilePair(0, "CURRENT", Extent(1, 2, 8), Extent(1, 4, 8))
    tally = comparer(SOURCE, RESULT)(FileCheck(3, "op", pair))
    assert tally == Tally(3, Slot.KEYED, True, 0, "", None, 0, 8, digest([b"abcdefgh"]))
    for changed_pair in (pair._replace(result=Extent(1, 4, 7)), pair._replace(source=Extent(1, 1, 8))):
        with pytest.raises(
            IntegrityError, match=r"the file CURRENT of a RocksDB directory differs between the result and the source"
        ) as caught:
            comparer(SOURCE, RESULT)(FileCheck(3, "op", changed_pair))
        assert caught.value.operator == "op"
        assert str(caught.value.path).endswith("/result")
        assert "/source, with digest " in str(caught.value.expected)
        assert str(caught.value.found).startswith("digest ")


def element_check(in_result: bool, *lengths: int) -> ElementCheck:
    begin, extents = (4 if in_result else 2), []
    for length in lengths:
        extents.append(Extent(1, begin, length))
        begin += length
    mode = DistributionMode.UNION
    return ElementCheck(3, "op", Slot.OPERATOR, in_result, 2, "state", mode, tuple(extents))


@pytest.mark.parametrize("in_result", [False, True])
def test_digest_of_elements_does_not_depend_on_their_order(in_result: bool, comparer: MakeComparer) -> None:
    tally = comparer(SOURCE, RESULT)(element_check(in_result, 3, 5))
    expected = (digest([b"abc"]) + digest([b"defgh"])) % MODULUS
    assert tally == Tally(3, Slot.OPERATOR, in_result, 2, "state", DistributionMode.UNION, 2, 8, expected)
    assert comparer(SOURCE, RESULT)(element_check(in_result, 4, 4)).digest_sum != expected
    assert tally.digest_sum == comparer(b"..defghabc", b"....defghabc")(element_check(in_result, 5, 3)).digest_sum


def test_unreadable_file_is_blamed_on_the_side_that_holds_it(comparer: MakeComparer) -> None:
    """A missing file of the result is an integrity error: the run must have written it."""
    with pytest.raises(IntegrityError, match="cannot be read back") as caught:
        comparer(SOURCE, RESULT[:6])(element_check(True, 3, 5))
    assert (caught.value.operator, caught.value.offset) == ("op", 4)
    with pytest.raises(SnapshotError) as caught_in_source:
        comparer(SOURCE[:6], RESULT)(element_check(False, 3, 5))
    assert not isinstance(caught_in_source.value, IntegrityError)
    assert caught_in_source.value.operator == "op"
    with pytest.raises(IntegrityError, match="cannot be read back"):
        comparer(SOURCE, RESULT[:6])(group_check(group_pairs(3, 5)))
    with pytest.raises(SnapshotError):
        comparer(SOURCE[:6], RESULT)(group_check(group_pairs(3, 5)))


@pytest.fixture
def misread_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool], None]:
    """Return a function that spoils the first read of a side: it flips a bit in the first byte, or breaks off."""
    chunks = SnapshotFiles.chunks

    def plant(side: str, is_cut_off: bool) -> None:
        pending_sides = [side]

        def misread(files: SnapshotFiles, extent: Extent, *more: int) -> Iterator[bytes]:
            data = b"".join(chunks(files, extent, *more))
            if files.uri(extent).endswith(f"/{side}") and pending_sides:
                pending_sides.clear()
                if is_cut_off:
                    raise SnapshotError("a read that broke off", path=files.uri(extent))
                data = bytes([data[0] ^ 1]) + data[1:]
            yield data

        monkeypatch.setattr(SnapshotFiles, "chunks", misread)

    return plant


@pytest.mark.parametrize("side", ["source", "result"])
@pytest.mark.parametrize("is_cut_off", [False, True])
def test_read_that_does_not_repeat_raises_store_error_naming_its_side(
    side: str, is_cut_off: bool, comparer: MakeComparer, misread_once: Callable[[str, bool], None]
) -> None:
    checks: list[GroupCheck | FileCheck | ElementCheck] = [
        group_check(group_pairs(3, 5)),
        FileCheck(3, "op", FilePair(0, "CURRENT", Extent(1, 2, 8), Extent(1, 4, 8))),
    ]
    checks += (
        [element_check(side == "result", 3, 5)] if is_cut_off else []
    )  # flipped bits in elements show only when tallies are compared
    for check in checks:
        compare = comparer(SOURCE, RESULT)
        misread_once(side, is_cut_off)
        with pytest.raises(StoreError, match=f"two reads of the {side} differ") as caught:
            compare(check)
        assert caught.value.operator == "op"
