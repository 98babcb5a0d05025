"""Sets times, host and session id in SST files to values that do not depend on the run: equal rows give equal bytes.

RocksDB stores times, the host name, and a random session id in the properties of every file (`TableProperties`).
RocksDB takes the host name from `db_host_id`. This module overwrites the times and the session id with values of the
same length. Each file needs a session id of its own: block caches identify a file by its session id and its original
file number (`GetSstInternalUniqueId`).
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from rescale.rocksdb.manifest.log_framing import masked_crc32c
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.sst.table_blocks import TRAILER_SIZE
from rescale.rocksdb.sst.table_entries import value_slices
from rescale.rocksdb.sst.table_properties import PROPERTY_PREFIX, SESSION_PROPERTY
from rescale.storage.files import owned
from rescale.text.errors import SnapshotError

HOST = "rescale"
"""Host name in new files (`db_host_id`)."""

_TIME_PROPERTIES = ("creation.time", "oldest.key.time", "newest.key.time", "file.creation.time")
_SESSION_DIGITS = 20
_BASE_36 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def new_identity(name: str) -> dict[str, str]:
    """Return the identity properties of a new file; `name` is its final name, unique among all files."""
    return {
        "creating.db.identity": HOST,
        "creating.host.identity": HOST,
        SESSION_PROPERTY: _session_id(name, _SESSION_DIGITS).decode(),
    }


def overwrite_identity(path: Path, name: str, creation_time: int) -> None:
    """Overwrite the times and the session id in the properties of the SST file at `path`.

    `name` is the final name of the file, unique among all files; `creation_time` is in seconds since 1970. Raises
    `SnapshotError` if the properties block is compressed.
    """
    with os.fdopen(owned.open_for_writing(path), "r+b") as file:

        def read(start: int, size: int) -> bytes:
            file.seek(start)
            return file.read(size)

        handle = SstTable(read, path.stat().st_size, str(path)).properties_handle
        block = bytearray(read(handle.offset, handle.size + TRAILER_SIZE))
        if block[handle.size]:
            raise SnapshotError("the properties of an SST file are compressed", path=str(path))
        for key, value_slice in value_slices(bytes(block[: handle.size]), str(path), handle.offset):
            block[value_slice] = _new_property_value(key, bytes(block[value_slice]), name, creation_time)
        block[-4:] = masked_crc32c(bytes(block[:-4])).to_bytes(4, "little")
        file.seek(handle.offset)
        file.write(block)


def _new_property_value(key: bytes, value: bytes, name: str, creation_time: int) -> bytes:
    """Return the new value of a property; an unknown time stays unknown."""
    property_name = key.decode(errors="replace").removeprefix(PROPERTY_PREFIX)
    if property_name in _TIME_PROPERTIES and any(value):
        return _varint_of(creation_time, len(value))
    return _session_id(name, len(value)) if property_name == SESSION_PROPERTY else value


def _varint_of(value: int, size: int) -> bytes:
    """Return a varint of exactly `size` bytes; readers accept varints that are longer than needed."""
    varint_bytes = [value >> 7 * i & 0x7F | (0x80 if i < size - 1 else 0) for i in range(size)]
    return bytes(varint_bytes)


def _session_id(name: str, size: int) -> bytes:
    """Return a session id of `size` digits in base 36 (`EncodeSessionId`), derived from the unique `name`."""
    number = int.from_bytes(hashlib.sha256(name.encode()).digest(), "big")
    digits = []
    for _ in range(size):
        number, digit = divmod(number, len(_BASE_36))
        digits.append(_BASE_36[digit])
    return "".join(digits).encode()
