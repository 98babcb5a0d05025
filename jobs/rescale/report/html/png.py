"""Small pictures of shades as PNG in a data URI: a thousand cells take fewer bytes than a dozen SVG rectangles.

A PNG with a palette is four chunks around the compressed rows (ISO/IEC 15948), so no library for pictures is needed.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PALETTE_OF_BYTES = (8, 3, 0, 0, 0)
"""Fields of the PNG header: 8 bits per pixel, colour type 3 (palette), deflate, no filter, not interlaced."""

_COLOUR = (0x2B, 0x7B, 0xBA)
"""A blue that stands out from white and from black; its opacity shows the amount."""


def shades_uri(rows: Sequence[Sequence[int]]) -> str:
    """Return a `data:` URI of a picture with rows of shades from 0 (clear) to 255 (opaque)."""
    used_shades = sorted({shade for row in rows for shade in row})
    index_of_shade = {shade: i for i, shade in enumerate(used_shades)}
    image_data = b"".join(b"\0" + bytes(index_of_shade[shade] for shade in row) for row in rows)
    data = _SIGNATURE + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">2I5B", len(rows[0]), len(rows), *_PALETTE_OF_BYTES)),
            _chunk(b"PLTE", bytes(_COLOUR) * len(used_shades)),
            _chunk(b"tRNS", bytes(used_shades)),
            _chunk(b"IDAT", zlib.compress(image_data, 9)),
            _chunk(b"IEND", b""),
        )
    )
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
