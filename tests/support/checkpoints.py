"""A job's checkpoint directory, local or in S3, made from a committed checkpoint; files can be added and removed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rescale.flink.metadata.checkpoint_metadata import Metadata
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from rescale.snapshot.reading.discovery import METADATA, checkpoint_directory, complete_checkpoints
from rescale.storage.locations import join, name
from support import edited
from support.s3 import unprotected_store


@dataclass
class Checkpoints:
    """A job's `directory`, whose newest complete checkpoint has this `number`."""

    directory: str
    number: int
    _hidden: dict[str, bytes] = field(default_factory=dict)

    @property
    def newest(self) -> str:
        return checkpoint_directory(self.directory, self.number)

    def shared(self) -> list[str]:
        """Return the URIs of the files that checkpoints share."""
        place = join(self.directory, "shared")
        return [entry.uri for entry in unprotected_store(place).list(place)]

    def copy_newest(self, number: int) -> None:
        """Make a later checkpoint with the same state, which uses the same shared files."""
        store, source = unprotected_store(self.directory), join(self.newest, METADATA)
        metadata = read_metadata(store.read_all(source, 1 << 20)[0], source)
        target = checkpoint_directory(self.directory, number)
        for entry in store.list(self.newest):
            if entry.uri != source:
                store.put(join(target, name(entry.uri)), store.read_all(entry.uri, 1 << 30)[0])
        later = edited.repointed(metadata, lambda path: path.replace(self.newest, target))
        store.put(join(target, METADATA), write_metadata(replace(later, checkpoint_id=number)))
        self.number = number

    def delete_older(self, number: int) -> None:
        """Delete the checkpoints before this one, as if they were subsumed; shared files stay."""
        for older in complete_checkpoints(self.directory):
            if older < number:
                self.delete_checkpoint(older)

    def delete_checkpoint(self, number: int) -> None:
        """Delete the files that only this checkpoint has."""
        store = unprotected_store(self.directory)
        store.delete([entry.uri for entry in store.list(checkpoint_directory(self.directory, number))])

    def rewrite(self, change: Callable[[Metadata], Metadata]) -> None:
        """Replace the `_metadata` of the newest checkpoint."""
        store, uri = unprotected_store(self.directory), join(self.newest, METADATA)
        store.put(uri, write_metadata(change(read_metadata(store.read_all(uri, 1 << 20)[0], uri))))

    def delete(self) -> None:
        """Delete all files, as Flink does after the job has ended."""
        store = unprotected_store(self.directory)
        store.delete([entry.uri for entry in store.list(self.directory)])

    def hide(self, uri: str) -> None:
        """Delete a file, until `show` puts it back."""
        self._hidden[uri] = unprotected_store(uri).read_all(uri, 1 << 30)[0]
        unprotected_store(uri).delete([uri])

    def show(self, uri: str) -> None:
        unprotected_store(uri).put(uri, self._hidden.pop(uri))

    def move_shared_to(self, place: str) -> None:
        """Move the shared files to another directory, and change the handles."""
        store, source = unprotected_store(self.directory), join(self.newest, METADATA)
        shared = join(self.directory, "shared")
        for uri in self.shared():
            store.put(join(place, name(uri)), store.read_all(uri, 1 << 30)[0])
        store.delete(self.shared())
        metadata = read_metadata(store.read_all(source, 1 << 20)[0], source)
        store.put(source, write_metadata(edited.repointed(metadata, lambda path: path.replace(shared, place))))


def checkpoints_in(fixture: str, directory: str, scratch: Path) -> Checkpoints:
    """Return a copy of a fixture's checkpoint whose handles point below `directory`."""
    local = edited.relocated(fixture, scratch)
    job = local.parent
    edited.edit(
        local,
        lambda metadata: edited.repointed(metadata, lambda path: path.replace(f"file:{job}", directory)),
    )
    edited.edit(local, lambda metadata: edited.repointed(metadata, lambda path: path.replace(str(job), directory)))
    store = unprotected_store(directory)
    for path in job.rglob("*"):
        if path.is_file():
            store.put(join(directory, str(path.relative_to(job))), path.read_bytes())
    shutil.rmtree(scratch)
    return Checkpoints(directory, int(local.name.removeprefix("chk-")))
