"""Foreign files, links and uploads beside target, source and scratch directory, which no history may touch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from simulation.bucket import Bucket
from simulation.stored import StoredObject, Upload, etag_of
from support.trees import Item, tree

FOREIGN_AUTHOR = "somebody"
"""Author of uploads that no run has begun."""

_FOREIGN_KEYS = (
    *("target-archive/_metadata", "targets/_metadata", "target.json", "target.rescaled/claim"),
    *("target.rescale-old/claim", "source.rescale/claim", "source-2/_metadata", "sources/_metadata"),
    *("target.rescale/notes.txt", "target.rescale/staging/notes.txt", "target.rescale/below/claim"),
    "target-2.rescale/staging/below/notes.txt",
)
_UPLOAD_KEYS = ("target-archive/state", "target.rescale/backup.tar", "target/backup.tar", "source/state")

FOREIGN_OBJECTS: Mapping[str, StoredObject] = {
    key: StoredObject(key.encode(), etag_of(key.encode())) for key in _FOREIGN_KEYS
}
"""Foreign objects by key."""


def put_foreign(bucket: Bucket) -> None:
    """Put the foreign objects and uploads before the history begins."""
    for key, stored in FOREIGN_OBJECTS.items():
        bucket.put(key, stored.data)
    for key in _UPLOAD_KEYS:
        bucket.uploads[f"{FOREIGN_AUTHOR}-{key}"] = Upload(key, FOREIGN_AUTHOR)


def missing_or_changed_keys(bucket: Bucket) -> list[str]:
    """Return the foreign objects and uploads that are missing or changed."""
    keys = [key for key, stored in FOREIGN_OBJECTS.items() if bucket.objects.get(key) != stored]
    return keys + [key for key in _UPLOAD_KEYS if f"{FOREIGN_AUTHOR}-{key}" not in bucket.uploads]


def own_names_below(bucket: Bucket, folder: str) -> list[str]:
    """Return the names of objects in a directory that are not foreign."""
    return [name for name in bucket.data_below(folder) if f"{folder}/{name}" not in FOREIGN_OBJECTS]


def put_foreign_in_scratch(folder: Path) -> None:
    """Create foreign files beside scratch directories, with names like theirs."""
    for name in ("rescale-database-savepoint", "rescale-changelog-mine", "notes"):
        (folder / name).mkdir()
        (folder / name / "_metadata").write_text("the only copy")
    (folder / "rescale-database-link").symlink_to(folder / "notes")
    (folder / "blockmgr-link").symlink_to(folder / "notes")


def scratch_entries() -> dict[str, Item]:
    """Return everything in the folder of scratch directories, without the folder itself."""
    items = tree(Path(os.environ["SPARK_LOCAL_DIRS"]))
    return {path: item for path, item in items.items() if path != "."}
