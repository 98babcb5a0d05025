"""MANIFESTs, unchanged or with corrected checksums: an accepted MANIFEST can be written, and reads the same again."""

from __future__ import annotations

from collections.abc import Iterator

from fuzzing.subject import Subject, parts_of
from rescale.rocksdb.manifest.log_framing import read_log
from rescale.rocksdb.manifest.manifest import read_current, read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from support.databases import databases, read_file
from support.manifests import log

_AS_IT_STANDS, _RECORDS, _CURRENT = range(3)
SNAPSHOTS = ("1.20-rocksdb-changing", "2-rocksdb-changing", "1.20-rocksdb-2to3", "2-rocksdb-imported")
_MOST_RECORDS = 64


def _seeds() -> Iterator[bytes]:
    for name in SNAPSHOTS:
        for file in databases(name)[0].files:
            if file.name.startswith("MANIFEST"):
                data = read_file(file)
                yield bytes((_AS_IT_STANDS,)) + data
                payloads = [record.payload for record in read_log(data, "MANIFEST")][:_MOST_RECORDS]
                framed_payloads = b"".join(len(payload).to_bytes(2, "big") + payload for payload in payloads)
                yield bytes((_RECORDS, len(payloads))) + framed_payloads
            elif file.name == "CURRENT":
                yield bytes((_CURRENT,)) + read_file(file)


def _look(data: bytes) -> None:
    kind, data = data[0] % 3 if data else 0, data[1:]
    if kind == _CURRENT:
        read_current(data, "CURRENT")
        return
    if kind == _RECORDS:
        record_count = data[0] % _MOST_RECORDS + 1 if data else 1
        data = log(*parts_of(data[1:], record_count))
    manifest = read_manifest(data, "MANIFEST")
    written_manifest = write_manifest(manifest, "MANIFEST")
    assert read_manifest(written_manifest, "MANIFEST") == manifest


SUBJECT = Subject(_seeds, _look)
