"""Copies that a follower has compared with their originals while the job runs, so that the last round need not.

In S3, the copy of an object that was put in parts has another kind of ETag than the object. So the ETags do not show
that copy and original are equal, and the store must be asked for the checksums of each. The name of a copy identifies
the original file and its version (`plan.prepared_files`). The document `copies.json` names the version of the copy: as
long as the copy has that version, its checksum is equal to that of the original.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from rescale.plan.prepared_files import span_digest
from rescale.plan.prepared_name import PREPARED
from rescale.runstate.documents import put_document, read_document
from rescale.runstate.places import copies_place
from rescale.storage.checksums import checksum_of_etag, common_checksum
from rescale.storage.contract import Pin, Span
from rescale.storage.locations import is_s3, join, name
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import exists, open_store
from rescale.text.errors import DECODE_ERRORS


@dataclass(frozen=True)
class ComparedCopy:
    """A copy in the target, by its `name`, in the version whose checksum (`algorithm`) is that of the original."""

    name: str
    size: int
    etag: str | None
    algorithm: str

    @property
    def pin(self) -> Pin:
        return Pin(self.size, self.etag)


@dataclass(frozen=True)
class ComparedCopies:
    """The compared copies in a target, by name."""

    copies: Mapping[str, ComparedCopy]

    def algorithm_of(self, original: Span, uri: str, version: Pin | None) -> str | None:
        """Return the algorithm of the checksum that the file `uri` shares with the original.

        Returns None if the file is no compared copy of the original, or is not in the compared version.
        """
        copy = self.copies.get(name(uri))
        is_compared = copy is not None and copy.pin.matches(version)
        is_of_original = name(uri).endswith(f"-{PREPARED}-{span_digest(original)}.sst")
        return copy.algorithm if copy is not None and is_compared and is_of_original else None


NO_COPIES = ComparedCopies({})


def compared_copies(target: str) -> ComparedCopies:
    """Return the copies in a target that a follower has compared. An unreadable document counts as empty."""
    place = copies_place(target)
    try:
        copies = msgspec.json.decode(read_document(place), type=list[ComparedCopy]) if exists(place) else []
    except DECODE_ERRORS:
        copies = []
    return ComparedCopies({copy.name: copy for copy in copies})


def compare_copies(target: str, originals: Mapping[str, Span]) -> None:
    """Compare the copies in a target with their originals by the store's checksums, and write `copies.json`.

    `originals` maps the name of each copy to its original.

    Skips copies that were compared before, and those whose ETag is the same checksum as the original's. Local copies
    are hard links and need no comparison. The last round compares all copies that the document does not name.
    """
    if not is_s3(target):
        return
    version_by_name = {name(entry.uri): entry.pin for entry in open_store(target).list(target)}
    earlier_copies = compared_copies(target)

    def compare_copy(file_name: str) -> ComparedCopy | None:
        original, uri, version = originals[file_name], join(target, file_name), version_by_name[file_name]
        if (algorithm := earlier_copies.algorithm_of(original, uri, version)) is not None:
            return ComparedCopy(file_name, version.size, version.etag, algorithm)
        etag_checksum = checksum_of_etag(original.pin.etag or "")
        if etag_checksum is not None and etag_checksum == checksum_of_etag(version.etag or ""):
            return None
        store = open_store(uri)
        shared_checksum = common_checksum(store.checksums(original.uri, original.pin), store.checksums(uri, version))
        is_equal = shared_checksum is not None and version.size == original.length
        return (
            ComparedCopy(file_name, version.size, version.etag, shared_checksum.algorithm)
            if shared_checksum and is_equal
            else None
        )

    results = side_by_side(compare_copy, [file_name for file_name in originals if file_name in version_by_name])
    copy_by_name = {copy.name: copy for copy in results if copy is not None}
    if copy_by_name != earlier_copies.copies:
        put_document(copies_place(target), msgspec.json.encode(list(copy_by_name.values())))
