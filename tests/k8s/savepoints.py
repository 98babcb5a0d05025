"""The job whose savepoints are rescaled in the cluster, and the download of a result to this machine."""

from __future__ import annotations

from pathlib import Path

from oracle.harness import Job
from rescale.storage.locations import name
from rescale.storage.store import open_store

JOB = Job("everything", parallelism=4, parameters={"seed": 3}, max_parallelism=128)


def download(uri: str, folder: Path) -> str:
    """Download the files of a directory in S3 into a new folder, and return it."""
    folder.mkdir()
    for entry in open_store(uri).list(uri):
        (folder / name(entry.uri)).write_bytes(open_store(uri).read_all(entry.uri, 1 << 30)[0])
    return str(folder)
