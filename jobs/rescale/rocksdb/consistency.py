"""Check that the parts of a database agree: the handle's files, CURRENT, MANIFEST, OPTIONS, and the state names.

Only small files are read, so planning makes this check, too, before any task runs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from rescale.flink.advice import TAKE_ANOTHER_SNAPSHOT
from rescale.rocksdb.manifest.manifest import (
    DEFAULT_COLUMN_FAMILY,
    Manifest,
    check_manifest_size,
    read_current,
    read_manifest,
)
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.rocksdb.options_file import check_options
from rescale.rocksdb.stored_files import CURRENT, StoredFile, newest_options
from rescale.text.errors import SnapshotError


def checked_manifest(
    files: Sequence[StoredFile], read_content: Callable[[StoredFile], bytes], states: Collection[str]
) -> Manifest:
    """Return the MANIFEST of a database, after all checks that need no rows.

    `files` are the result of `needed_files`, and `read_content` returns the content of one of them. `states` are the
    state names in the meta stream (`IncrementalRemoteKeyedStateHandle`). Raises `SnapshotError` if the parts contradict
    each other, and `UnsupportedError` for unsupported features.
    """
    try:
        return _consistent_manifest(files, read_content, states)
    except SnapshotError as error:
        raise error.located(advice=TAKE_ANOTHER_SNAPSHOT) from None


def _consistent_manifest(
    files: Sequence[StoredFile], read_content: Callable[[StoredFile], bytes], states: Collection[str]
) -> Manifest:
    file_by_name = {file.name: file for file in files}
    manifest_names = [file.name for file in files if file.name.startswith("MANIFEST-")]
    if CURRENT not in file_by_name or len(manifest_names) != 1:
        raise SnapshotError(
            "the state handle does not list exactly one CURRENT and one MANIFEST",
            path=files[0].uri if files else None,
            found=", ".join(sorted(file_by_name)),
        )
    current, manifest_file = file_by_name[CURRENT], file_by_name[manifest_names[0]]
    manifest_name = read_current(read_content(current), current.uri)
    if manifest_name != manifest_file.name:
        raise SnapshotError(
            "CURRENT names another MANIFEST", path=current.uri, expected=manifest_file.name, found=manifest_name
        )
    check_manifest_size(manifest_file.length, manifest_file.uri)
    manifest = read_manifest(read_content(manifest_file), manifest_file.uri)
    if options := newest_options(files):
        check_options(read_content(options), options.uri)
    _check_files(file_by_name, manifest.files, manifest_file)
    _check_states(manifest, states, manifest_file)
    return manifest


def _check_files(
    listed_files_by_name: dict[str, StoredFile], live_files_by_name: dict[str, LiveFile], manifest: StoredFile
) -> None:
    table_names = {name for name in listed_files_by_name if name.endswith(".sst")}
    if table_names != live_files_by_name.keys():
        missing_names = sorted(live_files_by_name.keys() - table_names)
        surplus_names = sorted(table_names - live_files_by_name.keys())
        raise SnapshotError(
            "the state handle and the MANIFEST list different SST files",
            path=manifest.uri,
            expected=f"{len(live_files_by_name)} files" + (f", {missing_names[0]} among them" if missing_names else ""),
            found=f"{len(table_names)} files" + (f", {surplus_names[0]} among them" if surplus_names else ""),
        )
    for name, file in live_files_by_name.items():
        if listed_files_by_name[name].length != file.size:
            raise SnapshotError(
                f"the size of the SST file {name} differs from the MANIFEST",
                path=listed_files_by_name[name].uri,
                expected=f"{file.size} bytes",
                found=f"{listed_files_by_name[name].length} bytes",
            )


def _check_states(manifest: Manifest, states: Collection[str], file: StoredFile) -> None:
    families_by_name = {family.name: family for family in manifest.column_families}
    if families_by_name.pop(DEFAULT_COLUMN_FAMILY).files:
        raise SnapshotError(
            "the database has rows in a column family that belongs to no state",
            path=file.uri,
            found=DEFAULT_COLUMN_FAMILY,
        )
    if families_by_name.keys() != set(states):
        raise SnapshotError(
            "the column families of the database differ from the states in its meta stream",
            path=file.uri,
            expected=", ".join(sorted(states)),
            found=", ".join(sorted(families_by_name)),
        )
