"""A Flink database that is open for reading.

RocksDB opens the database with Rescale's options, not with those in OPTIONS (see `check_options`). The merge operator
joins list elements that were added one by one; without it RocksDB returns no value for such a list.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT, TAKE_ANOTHER_SNAPSHOT
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.bounds_check import check_bounds
from rescale.rocksdb.engine.directory import DatabaseDirectory
from rescale.rocksdb.engine.library import RocksdbError, library
from rescale.rocksdb.engine.opened_directory import open_directory
from rescale.rocksdb.engine.table_check import check_tables
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY, Manifest
from rescale.rocksdb.options_file import MERGE_OPERATOR
from rescale.rocksdb.sst.table import SstTable, read_at
from rescale.rocksdb.stored_files import CURRENT
from rescale.text.errors import RescaleError, SnapshotError, StoreError, UnsupportedError

_OPEN_OPTIONS = f"merge_operator={MERGE_OPERATOR};max_open_files=256;info_log_level=FATAL_LEVEL"
_USUAL_LEVEL_COUNT = 7
_READAHEAD_BYTES = 1024 * 1024
_NO_COUNTERS = 1
"""`PerfLevel::kDisable`: nobody reads RocksDB's counters of this thread, and they take a tenth of a scan's time."""

_FILE_IN_MESSAGE = re.compile(r"(\d+\.sst|MANIFEST-\d+|CURRENT)\b")
_BLAMED_MANIFEST = re.compile(r"\s+The file \S*MANIFEST-\d+ may be corrupted\.")
"""Part of RocksDB's message about an unreadable SST file. It suspects the MANIFEST, whose checksums are right."""

_TRANSIENT_STATUSES = ("IO error", "Busy", "TimedOut", "Try again", "Aborted")
_DAMAGE_STATUSES = ("Corruption", "NotFound")


@dataclass(frozen=True)
class RowIterator:
    """RocksDB iterator over some rows of a state; `address` is the address of its `rocksdb_iterator_t`."""

    address: int
    _database: OpenDatabase
    _state: str

    def check(self) -> None:
        """Raise the error that stopped the iterator, if any.

        Without this check, an error looks like the end of the rows.
        """
        try:
            library().call_checked("iter_get_error", self.address)
        except RocksdbError as error:
            raise self._database.error(str(error), self._state) from None


@dataclass(frozen=True)
class RowLookup:
    """Arguments of lookups in a state: the addresses of the database, of read options, and of the column family."""

    addresses: tuple[int, int, int]
    _database: OpenDatabase
    _state: str

    def check(self, error_address: int) -> None:
        """Raise the error of RocksDB whose text lies at this address; do nothing for address 0."""
        try:
            library().raise_error(ctypes.c_char_p(error_address))
        except RocksdbError as error:
            raise self._database.error(str(error), self._state) from None


class OpenDatabase:
    """A database that RocksDB has opened, and its `manifest`."""

    def __init__(
        self, directory: DatabaseDirectory, manifest: Manifest, address: int, column_families: dict[str, int]
    ) -> None:
        self.manifest = manifest
        self._directory = directory
        self._address = address
        self._column_families = column_families

    @property
    def uri(self) -> str:
        """URI of CURRENT, which names the MANIFEST."""
        return next(file.uri for file in self._directory.files if file.name == CURRENT)

    @contextmanager
    def lookup(self, state: str) -> Iterator[RowLookup]:
        """Provide the arguments of lookups in a state, until the block ends."""
        rocksdb = library()
        options = rocksdb.call("readoptions_create")
        try:
            yield RowLookup((self._address, options, self._column_families[state]), self, state)
        finally:
            rocksdb.call("readoptions_destroy", options)

    @contextmanager
    def rows(self, state: str, begin: bytes, end: bytes) -> Iterator[RowIterator]:
        """Provide an iterator at the first row of a state with a key in [begin, end), until the block ends."""
        rocksdb = library()
        with ExitStack() as stack:
            options = rocksdb.call("readoptions_create")
            stack.callback(rocksdb.call, "readoptions_destroy", options)
            rocksdb.call("readoptions_set_fill_cache", options, 0)
            rocksdb.call("readoptions_set_readahead_size", options, _READAHEAD_BYTES)
            rocksdb.call("readoptions_set_total_order_seek", options, 1)
            # RocksDB keeps the address of `end`, and reads `end` there as long as the iterator is used.
            rocksdb.call("readoptions_set_iterate_upper_bound", options, end, len(end))
            family = self._column_families[state]
            iterator = rocksdb.call("create_iterator_cf", self._address, options, family)
            stack.callback(rocksdb.call, "iter_destroy", iterator)
            rocksdb.call("iter_seek", iterator, begin, len(begin))
            yield RowIterator(iterator, self, state)

    def error(self, message: str, state: str) -> RescaleError:
        """Return Rescale's error for a message of RocksDB about reading a state."""
        (family,) = (family for family in self.manifest.column_families if family.name == state)
        file_names = [file.name for file in family.files]
        damaged_names = [name for name in _damaged_tables(self._directory) if name in file_names]
        return rocksdb_message_error(message, self._directory, damaged_names or file_names).located(state=state)


@contextmanager
def opened_database(directory: DatabaseDirectory, states: Collection[str]) -> Iterator[OpenDatabase]:
    """Provide the database in a directory, open for reading; `states` are its state names in the meta stream.

    Raises `SnapshotError` if the database is damaged, or if its parts contradict each other: for example, if the
    MANIFEST has wrong key ranges of SST files. Raises `UnsupportedError` for features that Flink's databases do not
    have.
    """
    manifest = checked_manifest(directory.files, directory.content, states)
    level_count = 1 + max((file.level for file in manifest.files.values()), default=0)
    check_tables(directory)
    check_bounds(directory, manifest)
    options = f"{_OPEN_OPTIONS};num_levels={max(level_count, _USUAL_LEVEL_COUNT)}"
    library().call("set_perf_level", _NO_COUNTERS)
    with ExitStack() as stack:
        try:
            address, families = open_directory(
                directory.path, [DEFAULT_COLUMN_FAMILY, *states], options, stack, is_read_only=True
            )
        except RocksdbError as error:
            raise rocksdb_message_error(
                _BLAMED_MANIFEST.sub("", str(error)), directory, _damaged_tables(directory)
            ) from None
        yield OpenDatabase(directory, manifest, address, families)


def _damaged_tables(directory: DatabaseDirectory) -> list[str]:
    """Return the SST files with a damaged end or index: the parts that RocksDB reads when it opens a database."""
    damaged_names = []
    for file in directory.files:
        if not file.name.endswith(".sst"):
            continue
        try:
            with (directory.path / file.name).open("rb") as open_file:
                for _ in SstTable(partial(read_at, open_file.fileno()), file.length, file.uri).index_entries():
                    pass
        except (RescaleError, OSError):
            damaged_names.append(file.name)
    return damaged_names


def rocksdb_message_error(message: str, directory: DatabaseDirectory, files_read: Sequence[str] = ()) -> RescaleError:
    """Return Rescale's error for a message of RocksDB, with the URI of the file that the message names.

    If the message names no file, the error lists `files_read`.
    """
    uri_by_name = {file.name: file.uri for file in directory.files}
    named_files = [name for name in _FILE_IN_MESSAGE.findall(message) if name in uri_by_name]
    if not named_files and files_read:
        message += f" (in {' or '.join(files_read)})"
        named_files = list(files_read[:1] if len(files_read) == 1 else ())
    path = uri_by_name[named_files[0] if named_files else CURRENT]
    text = message.replace(f"{directory.path}/", "")
    if text.startswith(_TRANSIENT_STATUSES) and "No such file" not in text:
        return StoreError("RocksDB cannot read the database", path=path, found=text)
    if text.startswith((*_DAMAGE_STATUSES, *_TRANSIENT_STATUSES)):
        return SnapshotError(
            "the database is damaged", path=path, found=f"RocksDB says: {text}", advice=TAKE_ANOTHER_SNAPSHOT
        )
    return UnsupportedError(
        "RocksDB cannot open or read the database",
        path=path,
        found=f"RocksDB says: {text}",
        advice=RESCALE_CANONICAL_SAVEPOINT,
    )
