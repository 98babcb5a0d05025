"""Files, links and uploads of others around target, source and scratch directory: no history may touch them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from simulation.bucket import Bucket
from simulation.stored import Stored, Upload, etag_of
from support.trees import Item, tree

SOMEBODY = "somebody"
"""By whom uploads of others are."""

_KEYS = (
    *("target-archive/_metadata", "targets/_metadata", "target.json", "target.rescaled/claim"),
    *("target.rescale-old/claim", "source.rescale/claim", "source-2/_metadata", "sources/_metadata"),
    *("target.rescale/notes.txt", "target.rescale/staging/notes.txt", "target.rescale/below/claim"),
    "target-2.rescale/staging/below/notes.txt",
)
_BEGUN = ("target-archive/state", "target.rescale/backup.tar", "target/backup.tar", "source/state")

OBJECTS: Mapping[str, Stored] = {key: Stored(key.encode(), etag_of(key.encode())) for key in _KEYS}
"""By key."""


def settle(bucket: Bucket) -> None:
    """They are there before the history begins."""
    for key, stored in OBJECTS.items():
        bucket.put(key, stored.data)
    for key in _BEGUN:
        bucket.uploads[f"{SOMEBODY}-{key}"] = Upload(key, SOMEBODY)


def touched(bucket: Bucket) -> list[str]:
    """Which of them are gone, or are no longer what they were."""
    objects = [key for key, stored in OBJECTS.items() if bucket.objects.get(key) != stored]
    return objects + [key for key in _BEGUN if f"{SOMEBODY}-{key}" not in bucket.uploads]


def ours_below(bucket: Bucket, folder: str) -> list[str]:
    """The names of objects in a directory that are not somebody else's."""
    return [name for name in bucket.below(folder) if f"{folder}/{name}" not in OBJECTS]


def settle_in_scratch(folder: Path) -> None:
    """Beside scratch directories, with names that look like theirs."""
    for name in ("rescale-database-savepoint", "rescale-changelog-mine", "notes"):
        (folder / name).mkdir()
        (folder / name / "_metadata").write_text("the only copy")
    (folder / "rescale-database-link").symlink_to(folder / "notes")
    (folder / "blockmgr-link").symlink_to(folder / "notes")


def in_scratch() -> dict[str, Item]:
    """All that lies where histories have their scratch directories, but for the directory that holds it."""
    items = tree(Path(os.environ["SPARK_LOCAL_DIRS"]))
    return {path: item for path, item in items.items() if path != "."}
