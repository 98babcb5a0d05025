"""Union list states that grow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from rescale.flink.metadata.handles import DistributionMode
from rescale.insight.unions import UnionList, union_lists
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementState, ElementStream
from rescale.storage.store import Pin
from support.synthetic import GROUP_SIZE, element_stream, operator, snapshot

FAR_OFFSET = 1 << 40

WORDS = (DistributionMode.SPLIT_DISTRIBUTE, 3)


def unions(folder: Path, *contents: str) -> list[UnionList]:
    """Return the union lists of an operator whose subtasks wrote elements, each a letter `GROUP_SIZE` times."""
    streams, files = [], [("/nowhere/_metadata", Pin(9))]
    for subtask, letters in enumerate(contents):
        elements = {"offsets": (DistributionMode.UNION, len(letters)), "words": WORDS}
        streams.append(element_stream(subtask, elements))
        path = folder / str(subtask)
        path.write_bytes(b"".join(GROUP_SIZE * letter.encode() for letter in letters + "www"))
        files.append((str(path), Pin(path.stat().st_size, mtime_ns=path.stat().st_mtime_ns)))
    list_operator = operator("lists", len(contents), elements=tuple(streams))
    return union_lists(replace(snapshot(list_operator), files=tuple(files)), list_operator, 6)


def test_every_subtask_restores_all_elements_of_a_union_list(tmp_path: Path) -> None:
    (union,) = unions(tmp_path, "ab", "c")
    assert (union.state, union.elements, union.bytes) == ("offsets", 3, 3 * GROUP_SIZE)
    assert union.bytes_at_restore == 6 * 3 * GROUP_SIZE
    assert not union.repeated


def test_union_list_with_equal_elements_in_every_subtask_is_repeated(tmp_path: Path) -> None:
    assert unions(tmp_path, "abc", "cab", "bca")[0].repeated
    assert not unions(tmp_path, "abc", "def", "ghi")[0].repeated
    assert not unions(tmp_path, "a", "a", "a")[0].repeated  # equal elements, but maybe one of each subtask
    assert not unions(tmp_path, "abc", "abc", "abcd")[0].repeated
    assert not unions(tmp_path, "abc")[0].repeated


def test_elements_far_apart_are_read_without_the_bytes_between_them(tmp_path: Path) -> None:
    """A forged handle may place elements a terabyte apart; a single read of both would be that long."""
    streams, files = [], [("/nowhere/_metadata", Pin(9))]
    for subtask in range(2):
        path = tmp_path / str(subtask)
        with path.open("wb") as file:
            file.write(b"aa")
            file.seek(FAR_OFFSET)
            file.write(b"bb")
        files.append((str(path), Pin(FAR_OFFSET + 2, mtime_ns=path.stat().st_mtime_ns)))
        elements = (Extent(subtask + 1, 0, 2), Extent(subtask + 1, FAR_OFFSET, 2))
        state = ElementState("offsets", DistributionMode.UNION, elements)
        streams.append(ElementStream(subtask, Extent(subtask + 1, 0, FAR_OFFSET + 2), (state,), b"", None))
    list_operator = operator("lists", 2, elements=tuple(streams))
    (union,) = union_lists(replace(snapshot(list_operator), files=tuple(files)), list_operator, 6)
    assert union.repeated


def test_empty_union_list_is_left_out(tmp_path: Path) -> None:
    assert unions(tmp_path, "", "") == []
