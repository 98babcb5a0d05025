"""Places to which handles may point, and places that are refused."""

from __future__ import annotations

import pytest

from rescale.flink.metadata.handles import (
    EmptySegmentStream,
    FileStream,
    InlineStream,
    KeyGroupsStream,
    RelativeFileStream,
    SegmentStream,
    Stream,
)
from rescale.snapshot.locate import Extent, Locator
from rescale.text.errors import SnapshotError, UnsupportedError


def new_locator(directory: str = "/save/one", *allowed_prefixes: str) -> Locator:
    return Locator(f"{directory}/_metadata", directory, allowed_prefixes)


def test_every_form_of_stream_has_its_extent() -> None:
    locator = new_locator()
    inline = InlineStream("name", b"state", position=40)
    assert locator.extent(inline) == Extent(0, 40, 5)
    assert locator.extent(RelativeFileStream("a", 7)) == Extent(1, 0, 7)
    assert locator.extent(FileStream("file:/save/one/b", 8)) == Extent(2, 0, 8)
    assert locator.extent(SegmentStream("file:/save/one/c", 5, 6, 0, "id")) == Extent(3, 5, 6)
    assert locator.extent(SegmentStream("file:/save/one/c", 11, 2, 1, "id")) == Extent(3, 11, 2)
    assert locator.extent(KeyGroupsStream(0, (1, 2), RelativeFileStream("a", 7))) == Extent(1, 0, 7)
    assert locator.extent(EmptySegmentStream()) is None
    assert locator.extent(None) is None
    assert locator.files == ["/save/one/_metadata", "/save/one/a", "/save/one/b", "/save/one/c"]
    assert locator.whole_sizes == {1: 7, 2: 8}


def test_part_of_an_extent_counts_from_the_start_of_the_extent() -> None:
    assert Extent(2, 100, 50).part(7, 3) == Extent(2, 107, 3)


@pytest.mark.parametrize(
    ("directory", "stream"),
    [
        ("/save/one", RelativeFileStream("../two/a", 1)),
        ("/save/one", RelativeFileStream("../../../etc/passwd", 1)),
        ("/save/one", RelativeFileStream("x/../../one-more/a", 1)),
        ("/save/one", FileStream("file:/etc/passwd", 1)),
        ("/save/one", FileStream("/save/one/../two/a", 1)),
        ("/save/one", FileStream("file:/save/one%2F..%2Ftwo/a", 1)),
        ("/save/one", FileStream("s3://bucket/a", 1)),
        ("/save/one", SegmentStream("file:/save/two", 0, 1, 1, "id")),
        ("/save/chk-one", RelativeFileStream("../shared/a", 1)),
        ("/job/chk-3", RelativeFileStream("../../other/a", 1)),
        ("s3://bucket/save/one", FileStream("s3://bucket/save/two", 1)),
        ("s3://bucket/save/one", FileStream("s3://other/save/one/a", 1)),
        ("s3://bucket/save/one", RelativeFileStream("../two/a", 1)),
    ],
)
def test_stream_outside_the_snapshot_is_refused(directory: str, stream: Stream) -> None:
    locator = new_locator(directory)
    with pytest.raises(SnapshotError, match="points outside the snapshot") as caught:
        locator.extent(stream)
    assert caught.value.path == f"{directory}/_metadata"
    assert "--allow-prefix" in str(caught.value.advice)
    assert locator.files == [f"{directory}/_metadata"]


def test_relative_path_out_of_the_bucket_is_refused() -> None:
    locator = new_locator("s3://bucket/save/one")
    with pytest.raises(SnapshotError, match="points outside"):
        locator.extent(RelativeFileStream("../../../../other/a", 1))


@pytest.mark.parametrize("allowed_prefixes", [(), ("/",), ("/etc",)])
def test_local_file_in_a_snapshot_on_s3_is_refused(allowed_prefixes: tuple[str, ...]) -> None:
    """This holds even if its prefix is allowed: a local prefix allows files only to local snapshots."""
    with pytest.raises(SnapshotError, match="points outside the snapshot") as caught:
        new_locator("s3://bucket/save/one", *allowed_prefixes).extent(FileStream("file:/etc/passwd", 1))
    assert "--allow-prefix" not in str(caught.value.advice)


def test_checkpoint_may_use_files_in_the_directory_of_its_job() -> None:
    locator = new_locator("/job/chk-3")
    assert locator.extent(FileStream("file:/job/shared/a", 1)) == Extent(1, 0, 1)
    assert locator.extent(RelativeFileStream("../taskowned/b", 2)) == Extent(2, 0, 2)
    assert locator.extent(RelativeFileStream("c", 3)) == Extent(3, 0, 3)


def test_stream_below_an_allowed_prefix_is_accepted() -> None:
    locator = new_locator("/save/one", "/elsewhere", "s3://bucket/state")
    assert locator.extent(FileStream("file:///elsewhere/a", 1)) == Extent(1, 0, 1)
    assert locator.extent(FileStream("s3a://bucket/state/b", 1)) == Extent(2, 0, 1)
    with pytest.raises(SnapshotError, match="points outside"):
        locator.extent(FileStream("file:/elsewhere-not/a", 1))


def test_unsupported_file_system_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="a place that Rescale cannot read") as caught:
        new_locator().extent(FileStream("hdfs://namenode/save/a", 1))
    assert caught.value.found == "hdfs://namenode/save/a"


def test_handles_that_disagree_about_the_size_of_a_file_are_refused() -> None:
    locator = new_locator()
    locator.extent(RelativeFileStream("a", 7))
    assert locator.extent(FileStream("/save/one/a", 7)) == Extent(1, 0, 7)
    with pytest.raises(SnapshotError, match="disagree about the size") as caught:
        locator.extent(RelativeFileStream("./a", 8))
    assert (caught.value.path, caught.value.expected, caught.value.found) == ("/save/one/a", "7", "8")


def test_handle_without_a_file_size_is_refused_as_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="does not record the size"):
        new_locator().extent(RelativeFileStream("file", -1))
