"""The SST files of a RocksDB directory in which a later checkpoint may differ from an earlier one.

A file is known by where handles put it: Flink gives every file that it uploads a name of its own, while the names in a
directory come again after a failure (`SharedStateRegistryImpl`). It may be read elsewhere: a base's source may be a
copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rescale.rocksdb.manifest.compactions import PassedTable, Rewritten, rewritten_files
from rescale.rocksdb.manifest.manifest import LARGEST_MANIFEST
from rescale.rocksdb.options_file import refuse_few_levels, unfiltered_families
from rescale.rocksdb.stored_files import newest_options
from rescale.snapshot.databases.live_tables import listed_files
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.errors import UnsupportedError


class OwnTables(NamedTuple):
    """Names of files that only the earlier checkpoint has (`gone`), and only the later one (`added`).

    Those whose rows only compactions have rewritten in between are left out. `passed` are files that neither has, with
    keys that may have changed.
    """

    gone: frozenset[str]
    added: frozenset[str]
    passed: frozenset[PassedTable] = frozenset()


def own_tables(
    earlier: Snapshot, before: Database | None, later: Snapshot, after: Database | None, kept: Mapping[str, int]
) -> OwnTables:
    """Compare a directory in two checkpoints; None where it does not exist.

    `kept` has the sizes of files, by name, that checkpoints in between had and that can be read. Raises what
    `read_manifest` does.
    """
    gone, added = differing_tables(earlier, before, later, after)
    if before is None or after is None or not gone or not added:
        return OwnTables(gone, added)
    files, passed = _rewritten(earlier, before, later, after, kept)
    return OwnTables(gone - files, added - files, passed)


def differing_tables(
    earlier: Snapshot, before: Database | None, later: Snapshot, after: Database | None
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of files that only the earlier checkpoint has, and of those that only the later one has."""
    old, new = _by_place(earlier, before), _by_place(later, after)
    gone, added = (
        frozenset(own[place] for place in own.keys() - others.keys()) for own, others in ((old, new), (new, old))
    )
    return gone, added


def refuse_few_levels_of(snapshot: Snapshot, operator: Operator, levels: int) -> None:
    """`UnsupportedError` if the job opens the operator's directories with fewer than `levels` levels.

    One directory is looked at, because all subtasks have the same options.
    """
    for database in operator.databases[:1]:
        if (options := _newest_options(snapshot, database)) is not None:
            path, settings = options
            try:
                refuse_few_levels(settings, path, levels)
            except UnsupportedError as error:
                raise error.located(operator=operator.label) from None


def tables_in_between(
    checkpoints: Sequence[tuple[Snapshot, Database]], later: Snapshot, after: Database | None
) -> Iterator[tuple[str, Snapshot, Extent]]:
    """Yield (name, snapshot, place) of the SST files of a directory in checkpoints before a later one, if they exist.

    Checkpoints of another database, which had the same key groups, are left out.
    """
    if after is None:
        return
    _, history = _manifest(later, after)
    for snapshot, database in checkpoints:
        if history.startswith(_manifest(snapshot, database)[1]):
            for file in database.files:
                if file.name.endswith(".sst") and snapshot.files[file.extent.file][0] not in snapshot.missing:
                    yield file.name, snapshot, file.extent


class _Place(NamedTuple):
    """The URI that a handle names, the size of the file, and which of its bytes are an SST file."""

    uri: str
    size: int
    start: int
    length: int


def _by_place(snapshot: Snapshot, database: Database | None) -> dict[_Place, str]:
    """Return the names of a directory's SST files."""
    if database is None:
        return {}
    return {
        _Place(snapshot.origins[file], snapshot.files[file][1].size, start, length): table.file.name
        for table in database.tables
        for file, start, length in (table.extent,)
    }


def _rewritten(
    earlier: Snapshot, before: Database, later: Snapshot, after: Database, kept: Mapping[str, int]
) -> Rewritten:
    options = _newest_options(later, after)
    if options is None:
        return Rewritten()
    path, settings = options
    _, old = _manifest(earlier, before)
    manifest, new = _manifest(later, after)
    return rewritten_files(old, new, unfiltered_families(settings, path), kept, manifest)


def _newest_options(snapshot: Snapshot, database: Database) -> tuple[str, bytes] | None:
    """Return the URI of a directory's newest OPTIONS, and its content; None without one."""
    named = ((file.name, file.extent) for file in database.files if file.name.startswith("OPTIONS-"))
    options = newest_options(listed_files(snapshot.contents, named))
    return None if options is None else _named(snapshot, database, options.name)


def _manifest(snapshot: Snapshot, database: Database) -> tuple[str, bytes]:
    """Return the URI of a directory's MANIFEST, and its content."""
    return _named(snapshot, database, next(file.name for file in database.files if file.name.startswith("MANIFEST-")))


def _named(snapshot: Snapshot, database: Database, name: str) -> tuple[str, bytes]:
    """Return the URI of a file of the directory, and its content."""
    extent = next(file.extent for file in database.files if file.name == name)
    return snapshot.files[extent.file][0], snapshot.contents.read(extent, LARGEST_MANIFEST)
