"""Pictures of shades are read back chunk by chunk."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest

from rescale.report.html.png import shades_uri


def chunks_of(uri: str) -> dict[bytes, bytes]:
    """Return the contents of a picture's chunks by name, in order, after checking their checksums."""
    head, _, encoded = uri.partition(",")
    assert head == "data:image/png;base64"
    data = base64.b64decode(encoded)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, offset = {}, 8
    while offset < len(data):
        (length,) = struct.unpack_from(">I", data, offset)
        name, content = data[offset + 4 : offset + 8], data[offset + 8 : offset + 8 + length]
        assert struct.unpack_from(">I", data, offset + 8 + length) == (zlib.crc32(name + content),)
        chunks[name] = content
        offset += 12 + length
    return chunks


@pytest.mark.parametrize(
    "rows",
    [[[0]], [[255, 0, 17]], [[1, 2], [2, 1], [0, 255]], [list(range(256)), list(range(255, -1, -1))]],
)
def test_every_pixel_has_the_opacity_of_its_shade(rows: list[list[int]]) -> None:
    chunks = chunks_of(shades_uri(rows))
    assert list(chunks) == [b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"]
    width, height, bit_depth, colour_type, *_ = struct.unpack(">2I5B", chunks[b"IHDR"])
    assert (width, height, bit_depth, colour_type) == (len(rows[0]), len(rows), 8, 3)
    assert len(chunks[b"PLTE"]) == 3 * len(chunks[b"tRNS"])
    pixels = zlib.decompress(chunks[b"IDAT"])
    assert len(pixels) == height * (1 + width)
    for y, row in enumerate(rows):
        filter_type, *palette_indexes = pixels[y * (1 + width) : (y + 1) * (1 + width)]
        assert filter_type == 0
        assert [chunks[b"tRNS"][palette_index] for palette_index in palette_indexes] == row


def test_a_picture_of_few_shades_takes_few_bytes() -> None:
    assert len(shades_uri([[0, 200] * 500] * 3)) < 400
