"""Strings as Java's `DataOutput` has them."""

from __future__ import annotations

import pytest

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.text.errors import SnapshotError


@pytest.mark.parametrize("name", ["\ud800", "ab\udfffc"])
def test_unpaired_surrogate_in_a_name_is_refused_with_its_offset(name: str) -> None:
    """Java writes and reads unpaired surrogates. A pair is accepted, and read as one character."""
    writer = ByteWriter()
    writer.utf("\U0001f600")
    writer.utf(name)
    reader = ByteReader(writer.bytes(), "_metadata")
    assert reader.utf() == "\U0001f600"
    with pytest.raises(SnapshotError, match="an unpaired surrogate") as caught:
        reader.utf()
    assert (caught.value.path, caught.value.offset, caught.value.found) == ("_metadata", 8, name)
