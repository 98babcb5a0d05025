"""SST files that nobody wrote by accident: their checksums are right, and what they say cannot be."""

from __future__ import annotations

from rescale.rocksdb.manifest.edit_writer import varint
from rescale.rocksdb.sst.footer import FOOTER_SIZE, read_footer
from rescale.rocksdb.sst.table_blocks import CHECKSUMS, TRAILER_SIZE, BlockHandle


def with_index(data: bytes, block: BlockHandle) -> bytes:
    """The file `data`, of the same size, with an index that names this block alone."""
    footer = read_footer(data[-FOOTER_SIZE:], len(data), "", 0)
    at, room = footer.index
    key = b"\x7f\xff"
    entry = varint(0) + varint(len(key)) + key + varint(block.offset) + varint(block.size)
    index = entry + (0).to_bytes(4, "little") + (1).to_bytes(4, "little")
    assert len(index) <= room
    stored = index + b"\0"
    stored += CHECKSUMS[footer.checksum](stored).to_bytes(4, "little")
    whole = data[:at] + stored.ljust(room + TRAILER_SIZE, b"\0") + data[at + room + TRAILER_SIZE :]
    handles = b"".join(varint(number) for number in (*footer.metaindex, at, len(index)))
    return whole[: -FOOTER_SIZE + 1] + handles.ljust(40, b"\0") + data[-12:]
