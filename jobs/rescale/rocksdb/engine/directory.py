"""The files of a database in a scratch directory, where RocksDB can open the database.

RocksDB writes at least a log into the directory that it opens, so it must not open the snapshot's directory. The
scratch directory has symbolic links to local files, and copies of all other files, which are fetched a few at a time in
bounded chunks. The directory is removed when the `with` block ends. A task reads its databases one after the other, or
small ones together, so it needs about as much disk space as its largest database.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rescale.rocksdb.engine.partial_files import SMALLEST_PARTIAL_BYTES, PartialFiles
from rescale.rocksdb.stored_files import StoredFile, needed_files
from rescale.storage.files import owned
from rescale.storage.locations import is_s3
from rescale.storage.scratch import MORE_ROOM_ADVICE, ScratchKind, scratch_errors, scratch_folder
from rescale.storage.store import open_store, read_in_chunks
from rescale.text.errors import SnapshotError, StoreError

_CHUNK_BYTES = 8 * 1024 * 1024
_FILES_AT_ONCE = 4


@dataclass(frozen=True)
class DatabaseDirectory:
    """Directory `path` that holds the `files` of a database under their names."""

    path: Path
    files: tuple[StoredFile, ...]

    def content(self, file: StoredFile) -> bytes:
        """Return the content of a file. Raises `SnapshotError` if the target of its link is gone."""
        try:
            return (self.path / file.name).read_bytes()
        except OSError as error:
            raise SnapshotError(f"a file cannot be read any more: {error.strerror}", path=file.uri) from None


@contextmanager
def fetched_database(files: Sequence[StoredFile], scratch: Path) -> Iterator[DatabaseDirectory]:
    """Provide all files of a handle in a new directory below `scratch`, until the block ends.

    Raises `UnsupportedError` for files that a Flink database does not have, `SnapshotError` for files that are gone,
    too short or changed, `StoreError` if the disk has no room, and the errors of `scratch_errors`. When the block ends,
    checks again whether linked files are unchanged.
    """
    with partly_fetched_database(files, scratch, ()) as (directory, _):  # no file is fetched in parts
        yield directory


@contextmanager
def partly_fetched_database(
    files: Sequence[StoredFile], scratch: Path, partial_names: Collection[str]
) -> Iterator[tuple[DatabaseDirectory, PartialFiles]]:
    """Provide a database as `fetched_database` does, but do not fetch the files named `partial_names` as a whole.

    The caller must call `PartialFiles.begin` before it opens the database. It must fetch the blocks of these files
    (`PartialFiles.fetch`) before it reads rows from them. Linked and small files are always whole.
    """
    files_to_provide = needed_files(files)
    linked_names = {file.name for file in files_to_provide if _is_whole_local_file(file)}
    names_in_parts = {
        file.name
        for file in files_to_provide
        if file.name in partial_names
        and file.name not in linked_names
        and file.data is None
        and file.length >= SMALLEST_PARTIAL_BYTES
    }
    whole_files = [file for file in files_to_provide if file.name not in names_in_parts]
    with ExitStack() as stack:
        with scratch_errors(str(scratch)):
            path = stack.enter_context(scratch_folder(scratch, ScratchKind.DATABASE))
            _check_space(scratch, sum(file.length for file in whole_files if file.name not in linked_names))
            with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
                futures = [
                    pool.submit(_link if file.name in linked_names else _fetch, file, path / file.name)
                    for file in whole_files
                ]
                try:
                    for future in futures:
                        future.result()
                finally:
                    pool.shutdown(cancel_futures=True)
        partial_files = PartialFiles(path, [file for file in files_to_provide if file.name in names_in_parts])
        yield DatabaseDirectory(path, tuple(files_to_provide)), partial_files
        for file in files_to_provide:
            if file.name in linked_names:
                _check_version(file)


def _is_whole_local_file(file: StoredFile) -> bool:
    if file.data is not None or is_s3(file.uri) or file.start:
        return False
    pin = open_store(file.uri).stat(file.uri)
    return pin is not None and pin.size == file.length


def _check_space(scratch: Path, needed_bytes: int) -> None:
    free_bytes = shutil.disk_usage(scratch).free
    if needed_bytes > free_bytes:
        raise StoreError(
            "the disk has no room for the database that is fetched to it",
            path=str(scratch),
            expected=f"{needed_bytes} bytes for the files of one subtask's RocksDB directory",
            found=f"{free_bytes} bytes are free",
            advice=MORE_ROOM_ADVICE,
        )


def _link(file: StoredFile, path: Path) -> None:
    _check_version(file)
    owned.symlink(path, file.uri)


def _check_version(file: StoredFile) -> None:
    """Raise `SnapshotError` if a local file is gone, or is not the pinned version."""
    open_store(file.uri).read(file.uri, 0, 0, file.pin)


def _fetch(file: StoredFile, path: Path) -> None:
    with os.fdopen(owned.new_file(path), "wb") as out:
        if file.data is not None:
            out.write(file.data)
            return
        for chunk in read_in_chunks(file.uri, file.start, file.length, file.pin, _CHUNK_BYTES):
            out.write(chunk)
