"""Contents of a bucket: objects, uploads that are not completed, and the body of an answer."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from botocore.exceptions import IncompleteReadError


@dataclass(frozen=True)
class StoredObject:
    """An object; if its `data` rotted, `original_data` has the original bytes, and the ETag is still theirs."""

    data: bytes
    etag: str
    original_data: bytes | None = None

    @property
    def as_put(self) -> bytes:
        return self.data if self.original_data is None else self.original_data


@dataclass
class Upload:
    """Open upload, with its parts by number, and its author."""

    key: str
    author: str
    parts: dict[int, StoredObject] = field(default_factory=dict)


class Body:
    """Body of an answer to GetObject; if it `breaks` off, reading it fails, because botocore checks the length."""

    def __init__(self, data: bytes, *, breaks: bool = False) -> None:
        self.data = data
        self.breaks = breaks

    def read(self) -> bytes:
        if self.breaks:
            raise IncompleteReadError(actual_bytes=len(self.data) // 2, expected_bytes=len(self.data))
        return self.data

    def close(self) -> None:
        pass


@lru_cache(1024)
def etag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data).hexdigest()}"'
