"""MANIFESTs of real Flinks, read byte by byte, and refusals of damaged ones."""

from __future__ import annotations

from contextlib import suppress

import pytest

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.manifest import Manifest, read_current, read_manifest
from rescale.rocksdb.manifest.version_edit import FileTag, LiveFile
from rescale.text.errors import RescaleError, SnapshotError, UnsupportedError
from support.java_values import varint
from support.manifests import (
    ADD_STATE,
    COMPARATOR,
    OF_STATE,
    RANGE_DELETION,
    START,
    internal_key,
    log,
    new_file,
    number,
    slice_,
    text,
)

NEW_FILE = new_file(10)

FLINK_1_20 = bytes.fromhex(
    "98af58a6020001 0200"
    "5181c778060001 0900 0305 0400"
    "e86300c92b0001 011a6c6576656c64622e4279746577697365436f6d70617261746f72 0205 0308 0400 c80101 c90103636e74"
    "3781a498500001 02050900030b041f 67000aca09 1101076b65792d3431000102000000000000"
    "1127076b65792d3830000108000000000000 010f 0505dfad82d806 0605dfad82d806 0700 0807556e6b6e6f776e 01 c80101"
)
"""Records of a MANIFEST of Flink 1.20.5 whose job has one state."""

FIELDS = ((5, bytes.fromhex("dfad82d806")), (6, bytes.fromhex("dfad82d806")), (7, b""), (8, b"Unknown"))
"""Fields of the only file: two times, and an empty checksum, since Flink does not let RocksDB compute one."""

FLINK_2_3 = (
    bytes.fromhex("052b284300000135403f88200001 011a6c6576656c64622e4279746577697365436f6d70617261746f72 89400101"),
    bytes.fromhex(
        "c9927c51690001 02040900030b041f 67000afc0b 1101076b65792d3431000102000000000000"
        "1127076b65792d3830000108000000000000 011f 0505d6ae82d806 0605d6ae82d806 0d0101"
        "0700 0807556e6b6e6f776e 0c10bdb880e6da8d6efefc8aefff50f2fd71 0f02f807 01 c80101"
        "7854367d080001 0900030b0a00041f"
    ),
)
"""The same records of Flink 2.3.0, in two parts; a record that adds the state comes between them."""

TOMBSTONE = bytes.fromhex(
    "13748f59600001 024e0900035904b81d 670058b908 092b0fb80e0000000000 09400fffffffffffffff b81db81d"
    "0505 82c382d806 0605 82c382d806 0d0102 0700 0807556e6b6e6f776e 0c10a10e00558ddf3b2c9debde1c9fb1d24d"
    "0e02fa0a 0f02b908 01 c80107"
)
"""A file that Flink 2.3.0 wrote while it clipped a database: a range tombstone, of the column family 7."""


def read(data: bytes) -> Manifest:
    return read_manifest(data, "MANIFEST-000004")


def families(manifest: Manifest) -> dict[str, tuple[LiveFile, ...]]:
    return {family.name: family.files for family in manifest.column_families}


def test_manifest_of_flink_1_20_is_read() -> None:
    manifest = read(FLINK_1_20)
    first, last = InternalKey(b"\x01\x07key-41\x00", 2, 1), InternalKey(b"\x27\x07key-80\x00", 8, 1)
    assert families(manifest) == {"default": (), "cnt": (LiveFile(0, 10, 1226, first, last, 1, 15, FIELDS),)}
    assert (manifest.next_file_number, manifest.last_sequence) == (11, 31)
    assert list(manifest.files) == ["000010.sst"]


def test_manifest_of_flink_2_is_read() -> None:
    state_record = log(number(200, 1) + text(201, b"cnt") + COMPARATOR)
    manifest = read(state_record.join(FLINK_2_3))
    assert families(manifest)["cnt"][0].size == 1532
    assert (manifest.next_file_number, manifest.last_sequence) == (11, 31)


def test_file_that_ends_with_a_range_tombstone_has_an_exclusive_end() -> None:
    manifest = read(log(START, number(200, 7) + text(201, b"timers")) + TOMBSTONE)
    (file,) = families(manifest)["timers"]
    assert (file.number, file.smallest_user_key, file.largest_user_key, file.is_largest_exclusive) == (
        88,
        b"\x2b",
        b"\x40",
        True,
    )
    assert (file.smallest_key.sequence, file.smallest_sequence, file.largest_sequence) == (3768, 3768, 3768)
    assert (file.number_in(FileTag.EPOCH_NUMBER), file.number_in(FileTag.TEMPERATURE)) == (2, None)


def test_file_that_ends_with_the_start_of_a_range_tombstone_has_an_inclusive_end() -> None:
    key_bounds = slice_(internal_key(b"\x01", 5, RANGE_DELETION)) + slice_(internal_key(b"\x02", 5, RANGE_DELETION))
    file = varint(103) + varint(0) + varint(10) + varint(1000) + key_bounds + varint(5) * 2 + varint(1)
    assert not families(read(log(START, ADD_STATE, file + OF_STATE)))["state"][0].is_largest_exclusive


def test_manifest_with_moved_and_deleted_files_is_read() -> None:
    """A file moves to another level, another is deleted, and a column family is dropped with all its files."""
    move_of_file = number(6, 0) + varint(10) + new_file(10, level=6) + OF_STATE
    other_state = number(200, 2) + text(201, b"other")
    manifest = read(
        log(
            START,
            ADD_STATE,
            other_state,
            NEW_FILE + new_file(11) + OF_STATE,
            new_file(12) + number(200, 2),
            move_of_file,
            number(6, 0) + varint(11) + OF_STATE,
            number(200, 2) + varint(202),
            number(203, 2),
        )
    )
    assert {name: [(file.level, file.number) for file in files] for name, files in families(manifest).items()} == {
        "default": [],
        "state": [(6, 10)],
    }


def test_file_entries_of_older_rocksdb_releases_are_read() -> None:
    manifest = read(log(START, ADD_STATE, new_file(10, tag=100) + new_file(11, tag=102, path_id=b"\0") + OF_STATE))
    assert [file.name for file in families(manifest)["state"]] == ["000010.sst", "000011.sst"]


def test_manifest_fields_without_effect_on_rows_are_skipped() -> None:
    fields = number(9, 0) + number(10, 3) + text(8193, b"uuid") + text(8198, b"") + text(8199, b"wal")
    fields += text(8200, b"wal") + text(8201, b"\1") + number(5, 1) + slice_(internal_key(b"cursor"))
    custom = b"".join(text(tag, b"\1") for tag in (2, 3, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16)) + text(65, b"\0")
    file = new_file(10, custom=custom)
    assert len(families(read(log(START + fields, ADD_STATE, file + OF_STATE)))["state"]) == 1


def test_atomic_group_is_read_only_if_complete() -> None:
    group = [new_file(10 + i) + OF_STATE + number(300, 2 - i) for i in range(3)]
    assert len(read(log(START, ADD_STATE, *group)).files) == 3
    with pytest.raises(SnapshotError, match="inside an atomic group"):
        read(log(START, ADD_STATE, *group[:2]))
    with pytest.raises(SnapshotError, match="interrupted"):
        read(log(START, ADD_STATE, group[0], group[2]))
    with pytest.raises(SnapshotError, match="interrupted"):
        read(log(START, ADD_STATE, group[0], number(2, 0)))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([START.replace(b"Bytewise", b"bytewise")], "comparator"),
        ([START, varint(7) + b"\0"], "unknown field"),
        ([START, text(400, b"blob")], "blob files"),
        ([START, text(401, b"blob")], "blob files"),
        ([START, text(8194, b"blob")], "blob files"),
        ([START, text(8195, b"blob")], "blob files"),
        ([START, text(8196, b"wal")], "unknown field"),
        ([START, text(8197, b"wal")], "unknown field"),
        ([START, text(8198, b"low")], "timestamps"),
        ([START, text(8201, b"\0")], "timestamps"),
        ([START, text(9000, b"new")], "unknown field"),
        ([START, text(500, b"new")], "unknown field"),
        ([START, ADD_STATE, new_file(10, custom=text(4, b"\x05")) + OF_STATE], "blob files"),
        ([START, ADD_STATE, new_file(10, custom=text(10, b"\x05")) + OF_STATE], "timestamps"),
        ([START, ADD_STATE, new_file(10, custom=text(11, b"\x05")) + OF_STATE], "timestamps"),
        ([START, ADD_STATE, new_file(10, custom=text(16, b"\0")) + OF_STATE], "timestamps"),
        ([START, ADD_STATE, new_file(10, custom=text(65, b"\1")) + OF_STATE], "several directories"),
        ([START, ADD_STATE, new_file(10, custom=text(66, b"\1")) + OF_STATE], "unknown field"),
        ([START, ADD_STATE, new_file(10, custom=text(40, b"\1")) + OF_STATE], "unknown field"),
        ([START, ADD_STATE, new_file(10, tag=102, path_id=b"\1") + OF_STATE], "several directories"),
    ],
)
def test_manifest_with_unsupported_features_is_refused(records: list[bytes], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        read(log(*records))
    assert (caught.value.path, caught.value.advice) == (
        "MANIFEST-000004",
        RESCALE_CANONICAL_SAVEPOINT,
    )


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "incomplete"),
        ([COMPARATOR], "incomplete"),
        ([START, NEW_FILE + OF_STATE], "does not exist"),
        ([START, ADD_STATE, ADD_STATE], "added twice"),
        ([START, ADD_STATE, number(200, 2) + text(201, b"state")], "added twice"),
        ([START, ADD_STATE + NEW_FILE], "ignores there"),
        ([START, text(201, b"\xff") + number(200, 1)], "UTF-8"),
        ([START, varint(202)], "column family 0"),
        ([START, ADD_STATE, number(6, 0) + varint(10) + OF_STATE], "does not exist"),
        ([START, ADD_STATE, NEW_FILE + OF_STATE, number(6, 1) + varint(10) + OF_STATE], "does not exist"),
        ([START, ADD_STATE, NEW_FILE + NEW_FILE + OF_STATE], "added twice"),
        ([START, ADD_STATE, NEW_FILE + new_file(10, level=1) + OF_STATE], "added twice"),
        ([START, ADD_STATE, NEW_FILE, NEW_FILE + OF_STATE], "same number"),
        ([START, ADD_STATE, new_file(50) + OF_STATE], "not below the next file number"),
        ([START, ADD_STATE, new_file(10, sequence=10) + OF_STATE], "sequence numbers above the last sequence number"),
        ([START, ADD_STATE, new_file(10, smallest=b"\x03") + OF_STATE], "smallest"),
        ([START, varint(103) + varint(0) + varint(10) + varint(9) + slice_(b"short")], "sequence number"),
        ([START, b"\xff" * 11], "varint has more than 32 bits"),
        ([START, b"\xff\xff\xff\xff\x7f"], "varint has more than 32 bits"),
        ([START, varint(3) + b"\xff" * 10], "varint has more than 64 bits"),
        ([START, text(8193, b"uuid")[:-1]], "ends too early"),
    ],
)
def test_inconsistent_manifest_is_refused(records: list[bytes], message: str) -> None:
    with pytest.raises(SnapshotError, match=message) as caught:
        read(log(*records))
    assert caught.value.path == "MANIFEST-000004"


def test_damaged_record_with_a_right_checksum_is_read_or_refused() -> None:
    """Records cut at any byte or with any byte changed raise no error but `RescaleError`."""
    payload = NEW_FILE + OF_STATE + number(300, 0) + text(8193, b"id")
    for end in range(len(payload)):
        with suppress(RescaleError):
            read(log(START, ADD_STATE, payload[:end]))
    for at in range(len(payload)):
        for byte in range(256):
            with suppress(RescaleError):
                read(log(START, ADD_STATE, payload[:at] + bytes([byte]) + payload[at + 1 :]))


def test_current_names_the_manifest_or_is_refused() -> None:
    assert read_current(b"MANIFEST-000004\n", "CURRENT") == "MANIFEST-000004"
    for damaged in (
        b"",
        b"MANIFEST-000004",
        b"MANIFEST-\n",
        b"../MANIFEST-000004\n",
        b"MANIFEST-000004\n\n",
        b"\xff\n",
    ):
        with pytest.raises(SnapshotError, match="names no MANIFEST"):
            read_current(damaged, "CURRENT")
