"""The parts of real databases agree, and a change of any part is noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.manifest.log_framing import read_log
from rescale.rocksdb.manifest.manifest import LARGEST_MANIFEST_BYTES
from rescale.rocksdb.stored_files import StoredFile
from rescale.text.errors import SnapshotError, UnsupportedError
from support.databases import Stored, databases, read_file
from support.manifests import log, number
from support.slow import slow
from support.snapshots import FIXTURES

NAMES = sorted(path.parent.name for path in FIXTURES.glob("*rocksdb-*/expected.json"))


@pytest.fixture(params=["1.20-rocksdb-changing", "2-rocksdb-changing"])
def database(request: pytest.FixtureRequest) -> Stored:
    return databases(request.param)[0]


def reader_with_change(name: str, change: Callable[[bytes], bytes]) -> Callable[[StoredFile], bytes]:
    """Return a reader of file contents that applies `change` to the file whose name begins with `name`."""

    def content(file: StoredFile) -> bytes:
        data = read_file(file)
        return change(data) if file.name.startswith(name) else data

    return content


@pytest.mark.parametrize("name", NAMES)
def test_databases_of_flink_are_consistent(name: str) -> None:
    for database in databases(name):
        manifest = checked_manifest(database.files, read_file, database.states)
        assert [family.name for family in manifest.column_families] == ["default", *database.states]
        assert manifest.files


@pytest.mark.parametrize("missing_file", ["CURRENT", "MANIFEST"])
def test_database_without_current_or_manifest_is_refused(database: Stored, missing_file: str) -> None:
    files = [file for file in database.files if not file.name.startswith(missing_file)]
    with pytest.raises(SnapshotError, match="one CURRENT and one MANIFEST"):
        checked_manifest(files, read_file, database.states)


def test_database_with_two_manifests_is_refused(database: Stored) -> None:
    second = StoredFile("MANIFEST-999999", "elsewhere", 0, data=b"")
    with pytest.raises(SnapshotError, match="one CURRENT and one MANIFEST"):
        checked_manifest([*database.files, second], read_file, database.states)


def test_current_that_names_another_manifest_is_refused(database: Stored) -> None:
    with pytest.raises(SnapshotError, match="names another MANIFEST") as caught:
        checked_manifest(database.files, reader_with_change("CURRENT", lambda _: b"MANIFEST-999999\n"), database.states)
    assert caught.value.found == "MANIFEST-999999"


def test_missing_or_additional_sst_file_is_refused(database: Stored) -> None:
    table = next(file for file in database.files if file.name.endswith(".sst"))
    for files in (
        [file for file in database.files if file != table],
        [*database.files, replace(table, name="000999.sst")],
    ):
        with pytest.raises(SnapshotError, match="list different SST files") as caught:
            checked_manifest(files, read_file, database.states)
        assert "sst" in f"{caught.value.expected} {caught.value.found}"


def test_sst_file_of_another_size_is_refused(database: Stored) -> None:
    files = [replace(file, length=file.length + 1) if file.name.endswith(".sst") else file for file in database.files]
    with pytest.raises(SnapshotError, match="differs from the MANIFEST") as caught:
        checked_manifest(files, read_file, database.states)
    assert caught.value.path in {file.uri for file in files if file.name.endswith(".sst")}


def test_states_that_differ_from_the_column_families_are_refused(database: Stored) -> None:
    for states in (database.states[1:], [*database.states, "more"]):
        with pytest.raises(SnapshotError, match="differ from the states"):
            checked_manifest(database.files, read_file, states)


@pytest.mark.parametrize("step", [slow(1), 5])
def test_truncated_manifest_is_refused(database: Stored, step: int) -> None:
    """A cut between two records leaves a valid MANIFEST, which then lists other files than the handle."""
    (file,) = (file for file in database.files if file.name.startswith("MANIFEST"))
    size = len(read_file(file))
    accepted_ends = []
    for end in range(size, -1, -step):
        try:
            checked_manifest(
                database.files, reader_with_change("MANIFEST", lambda data, end=end: data[:end]), database.states
            )
        except SnapshotError:
            continue
        accepted_ends.append(end)
    assert accepted_ends[0] == size
    assert len(accepted_ends) <= 2, "the last record may say nothing of files"


def test_flipped_bit_in_the_manifest_is_refused(database: Stored) -> None:
    (file,) = (file for file in database.files if file.name.startswith("MANIFEST"))
    for bit in range(0, 8 * file.length, 23):

        def flip_bit(data: bytes, bit: int = bit) -> bytes:
            return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]

        with pytest.raises((SnapshotError, UnsupportedError)):
            checked_manifest(database.files, reader_with_change("MANIFEST", flip_bit), database.states)


def test_files_in_the_default_column_family_are_refused(database: Stored) -> None:
    """The last record is changed to name `default` as its column family."""

    def move_to_default(data: bytes) -> bytes:
        payloads = [record.payload for record in read_log(data, "")]
        return log(
            *(payload.replace(number(200, 1), b"") if b"Unknown" in payload else payload for payload in payloads)
        )

    with pytest.raises(SnapshotError, match="belongs to no state"):
        checked_manifest(database.files, reader_with_change("MANIFEST", move_to_default), database.states)


def test_too_large_manifest_is_refused_unread(database: Stored) -> None:
    files = [
        replace(file, length=LARGEST_MANIFEST_BYTES + 1) if file.name.startswith("MANIFEST") else file
        for file in database.files
    ]

    def content(file: StoredFile) -> bytes:
        assert file.name == "CURRENT"
        return read_file(file)

    with pytest.raises(UnsupportedError, match="too large"):
        checked_manifest(files, content, database.states)


@pytest.mark.parametrize(
    ("other_option", "message"),
    [
        ("merge_operator={id=StringAppendTESTOperator;delimiter=\\;}", "merge operator"),
        ("merge_operator=UInt64AddOperator", "merge operator"),
        ("comparator=rocksdb.ReverseBytewiseComparator", "comparator"),
        ("table_factory=PlainTable", "a format other"),
    ],
)
def test_options_that_flink_never_sets_are_refused(database: Stored, other_option: str, message: str) -> None:
    option = other_option.partition("=")[0]

    def replace_last_option(data: bytes) -> bytes:
        lines = data.decode().splitlines()
        last = max(i for i, line in enumerate(lines) if line.strip().startswith(f"{option}="))
        return "\n".join([*lines[:last], f"  {other_option}", *lines[last + 1 :]]).encode()

    with pytest.raises(UnsupportedError, match=message) as caught:
        checked_manifest(database.files, reader_with_change("OPTIONS", replace_last_option), database.states)
    assert caught.value.found == other_option.partition("=")[2]
    assert caught.value.state == database.states[-1]


@pytest.mark.parametrize("options_content", [b"\xff\xfe", b"no section", b'[CFOptions "x"]\n  no option'])
def test_unreadable_options_are_refused(database: Stored, options_content: bytes) -> None:
    with pytest.raises(SnapshotError, match="OPTIONS cannot be read"):
        checked_manifest(database.files, reader_with_change("OPTIONS", lambda _: options_content), database.states)


def test_state_names_in_options_may_hold_unicode_line_separators(database: Stored) -> None:
    """RocksDB writes them unescaped and ends lines at one character only (`RocksDBOptionsParser`)."""

    def rename_default(data: bytes) -> bytes:
        assert b'[CFOptions "default"]' in data
        return data.replace(b'[CFOptions "default"]', '[CFOptions "a\x0bb\x0cc\x1cd\x85e\u2028f"]'.encode())

    checked_manifest(database.files, reader_with_change("OPTIONS", rename_default), database.states)


def test_database_without_options_is_accepted(database: Stored) -> None:
    """Flink does not read the OPTIONS file."""
    files = [file for file in database.files if not file.name.startswith("OPTIONS")]
    checked_manifest(files, read_file, database.states)
