"""Search for the `_metadata` of a path: its own, or that of the newest complete checkpoint in a job's directory.

Flink writes the checkpoints of a job as `<directory>/<job id>/chk-N`; a checkpoint without `_metadata` is incomplete.
"""

from __future__ import annotations

import re

from rescale.storage.locations import join, name, parent
from rescale.storage.store import open_store
from rescale.text.errors import RequestError

METADATA = "_metadata"

_CHECKPOINT = "chk-"
_CHECKPOINT_METADATA = re.compile(_CHECKPOINT + r"([0-9]+)/" + METADATA)


def find_metadata(uri: str) -> str:
    """Return the URI of the `_metadata` of the snapshot at `uri`. Raise `RequestError` if there is none."""
    own = uri if name(uri) == METADATA else join(uri, METADATA)
    if open_store(own).stat(own) is not None:
        return own
    checkpoints = complete_checkpoints(uri) if uri not in (own, parent(uri)) else []
    if not checkpoints:
        raise RequestError(
            "there is no snapshot",
            path=own,
            expected="a directory with a file _metadata, or a job's directory with complete checkpoints (chk-N)",
            advice="name the directory that Flink printed when it took the savepoint",
        )
    return join(checkpoint_directory(uri, checkpoints[-1]), METADATA)


def complete_checkpoints(directory: str) -> list[int]:
    """Return the ids of the complete checkpoints in a job's directory, in ascending order."""
    return sorted(
        int(match[1])
        for entry in open_store(directory).list(directory, _CHECKPOINT)
        if (match := _CHECKPOINT_METADATA.fullmatch(entry.uri[len(directory) :].lstrip("/")))
    )


def checkpoint_directory(directory: str, checkpoint: int) -> str:
    """Return the directory of a checkpoint, by its id, in a job's directory (`AbstractFsCheckpointStorageAccess`)."""
    return join(directory, f"{_CHECKPOINT}{checkpoint}")
