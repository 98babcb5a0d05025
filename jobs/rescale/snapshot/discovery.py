"""Which `_metadata` a place stands for: its own, or the newest complete checkpoint's of a job's directory.

Flink writes the checkpoints of a job as `<directory>/<job id>/chk-N`; one without `_metadata` is not complete.
"""

from __future__ import annotations

import re

from rescale.errors import RequestError
from rescale.storage.locations import join, name, parent
from rescale.storage.store import open_store

METADATA = "_metadata"

_CHECKPOINT = "chk-"
_OF_CHECKPOINT = re.compile(_CHECKPOINT + r"([0-9]+)/" + METADATA)


def find_metadata(uri: str) -> str:
    """The `_metadata` of the snapshot at `uri`; `RequestError` if there is none."""
    own = uri if name(uri) == METADATA else join(uri, METADATA)
    if open_store(own).stat(own) is not None:
        return own
    checkpoints = [
        (int(match[1]), entry.uri)
        for entry in (open_store(uri).list(uri, _CHECKPOINT) if uri not in (own, parent(uri)) else [])
        if (match := _OF_CHECKPOINT.fullmatch(entry.uri[len(uri) :].lstrip("/")))
    ]
    if not checkpoints:
        raise RequestError(
            "there is no snapshot",
            path=own,
            expected="a directory with a file _metadata, or a job's directory with complete checkpoints (chk-N)",
            advice="name the directory that Flink printed when it took the savepoint",
        )
    return max(checkpoints)[1]
