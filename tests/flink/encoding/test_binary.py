"""Strings as Java's `DataOutput` has them."""

from __future__ import annotations

import pytest

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.text.errors import SnapshotError


@pytest.mark.parametrize("half", ["\ud800", "ab\udfffc"])
def test_a_name_with_half_of_a_surrogate_pair_is_refused_with_its_place(half: str) -> None:
    """Java writes it, and reads it; a pair is one sign."""
    writer = ByteWriter()
    writer.utf("\U0001f600")
    writer.utf(half)
    reader = ByteReader(writer.bytes(), "_metadata")
    assert reader.utf() == "\U0001f600"
    with pytest.raises(SnapshotError, match="half of a surrogate pair") as caught:
        reader.utf()
    assert (caught.value.path, caught.value.offset, caught.value.found) == ("_metadata", 8, half)
