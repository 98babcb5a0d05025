"""Where no row of a RocksDB directory is read, the certificate says so, and what a source is taken at its word for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.errors import SnapshotError
from rescale.execution.loop import Loop
from rescale.execution.steps import validate_coverage, validate_published
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof
from rescale.rocksdb.manifest.manifest import read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.target.publication import publish
from support.edited import edit_files, relocated
from support.pipeline import move, plan_rescale

NATIVE = "2-rocksdb-native"
UNCHANGED = "no row was read of the RocksDB directories that stay as they are"
BY_FILES = "no row was read of the RocksDB directories that were compared by their files"


def moved(source: Path, target: Path, *shape: str, foreign_share: float = 2) -> Plan:
    """Whole files, whatever part of them is other subtasks'."""
    with patch("rescale.planning.streams.database_streams.FOREIGN_SHARE", foreign_share):
        plan = plan_rescale(str(source), str(target), shape)
    move(plan, Loop())
    return plan


def unreadable(source: Path) -> None:
    """In every SST file a row has another byte than its checksum is of."""
    edit_files(source, "", lambda data: bytes([data[0] ^ 1]) + data[1:] if b"rocksdb.properties" in data else data)


def said_of(plan: Plan, proof: Proof) -> str:
    certificate = validate_coverage(plan, Loop(), proof)
    assert certificate["verdict"] == "complete"
    return str(certificate["does_not_prove"])


@pytest.mark.parametrize("proof", Proof)
@pytest.mark.parametrize("spoil", [lambda _: None, unreadable], ids=["sound", "unreadable"])
def test_what_stays_as_it_is_is_compared_byte_for_byte_and_not_read(
    spoil: Callable[[Path], None], proof: Proof, tmp_path: Path
) -> None:
    """A copy of what cannot be read is as good as its source, and nobody says more."""
    source = relocated(NATIVE, tmp_path / "source")
    spoil(source)
    plan = moved(source, tmp_path / "target")
    said = said_of(plan, proof)
    assert UNCHANGED in said
    assert BY_FILES not in said
    publish(plan)
    again = validate_published(plan.source, plan.target, Loop(), proof)
    assert UNCHANGED in str(again["does_not_prove"])


def test_what_is_made_anew_is_read_where_records_are_compared(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")
    plan = moved(source, tmp_path / "target", "3")
    assert UNCHANGED not in said_of(plan, Proof.RECORDS)
    assert BY_FILES not in said_of(plan, Proof.RECORDS)
    assert UNCHANGED not in said_of(plan, Proof.FILES)
    assert BY_FILES in said_of(plan, Proof.FILES)


def test_what_cannot_be_read_is_found_there(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")
    unreadable(source)
    plan = moved(source, tmp_path / "target", "3")
    assert BY_FILES in said_of(plan, Proof.FILES)
    with pytest.raises(SnapshotError):
        validate_coverage(plan, Loop(), Proof.RECORDS)


def begins_late(file: LiveFile) -> LiveFile:
    """Behind its first row, where it has two."""
    if file.smallest == file.largest:
        return file
    key = file.smallest_key
    return replace(file, smallest_key=key._replace(user_key=key.user_key + b"\0"))


def lying(change: Callable[[LiveFile], LiveFile]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        manifest = read_manifest(data, "MANIFEST")
        families = tuple(replace(one, files=tuple(map(change, one.files))) for one in manifest.column_families)
        return write_manifest(replace(manifest, column_families=families), "MANIFEST")

    return changed


def test_a_manifest_of_the_source_that_lies_of_keys_is_believed_by_files_and_not_by_records(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")
    assert edit_files(source, "MANIFEST", lying(begins_late))
    plan = moved(source, tmp_path / "target", "3")
    assert "begin and end with the keys that their MANIFESTs tell" in said_of(plan, Proof.FILES)
    with pytest.raises(SnapshotError, match="begin behind its first row"):
        validate_coverage(plan, Loop(), Proof.RECORDS)


def test_a_manifest_of_the_source_that_lies_of_sizes_is_found_before_anything_moves(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")
    assert edit_files(source, "MANIFEST", lying(lambda file: replace(file, size=file.size - 1)))
    with pytest.raises(SnapshotError, match="has not the size that the MANIFEST tells"):
        plan_rescale(str(source), str(tmp_path / "target"), ["3"])
