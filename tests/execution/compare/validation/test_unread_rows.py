"""If no row of a RocksDB directory is read, the certificate says so, and what it assumes of the source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.execution.steps import validate_coverage, validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.rocksdb.manifest.manifest import read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.runstate.publication import publish
from rescale.text.errors import SnapshotError, UnsupportedError
from support.edited import edit_files, relocated
from support.pipeline import move, plan_rescale

NATIVE = "2-rocksdb-native"
UNCHANGED = "in RocksDB directories that stay unchanged"
BY_FILES = "in RocksDB directories that were compared by their files, no row was read"


def move_whole_files(source: Path, target: Path, *shape: str, foreign_share: float = 2) -> Plan:
    """Move the snapshot with whole files, however few of their rows belong to the subtask."""
    with patch("rescale.planning.streams.database_streams.MOST_FOREIGN_SHARE", foreign_share):
        plan = plan_rescale(str(source), str(target), shape)
    move(plan, InProcessTasks())
    return plan


def damage_rows(source: Path) -> None:
    """Change a byte of a row in every SST file, so that the block's checksum is wrong."""
    edit_files(source, "", lambda data: bytes([data[0] ^ 1]) + data[1:] if b"rocksdb.properties" in data else data)


def statement_of(plan: Plan, proof: Proof) -> str:
    certificate = validate_coverage(plan, InProcessTasks(), proof)
    assert certificate.verdict == "complete"
    return str(certificate.does_not_prove)


@pytest.mark.parametrize("proof", [Proof.RECORDS, Proof.FILES])
def test_unchanged_directories_are_compared_byte_by_byte_without_reading_rows(proof: Proof, tmp_path: Path) -> None:
    plan = move_whole_files(relocated(NATIVE, tmp_path / "source"), tmp_path / "target")
    statement = statement_of(plan, proof)
    assert UNCHANGED in statement
    assert BY_FILES not in statement
    publish(plan)
    second_certificate = validate_published(plan.source, plan.target, InProcessTasks(), proof)
    assert UNCHANGED in str(second_certificate.does_not_prove)
    tables = [operator.tables for operator in second_certificate.operators if operator.tables]
    assert tables
    assert all(table.checked > 0 and table.unchecked == 0 for table in tables)
    assert "every block has the checksum" in str(second_certificate.proves)


@pytest.mark.parametrize("shape", [(), ("3",)], ids=["same shape", "cut"])
@pytest.mark.parametrize("proof", [Proof.RECORDS, Proof.FILES])
def test_directories_with_unreadable_blocks_are_not_certified(
    proof: Proof, shape: tuple[str, ...], tmp_path: Path
) -> None:
    """RocksDB would refuse such a block when the job reads a row."""
    source = relocated(NATIVE, tmp_path / "source")
    damage_rows(source)
    plan = move_whole_files(source, tmp_path / "target", *shape)
    with pytest.raises(SnapshotError) as raised:
        validate_coverage(plan, InProcessTasks(), proof)
    assert raised.value.path is not None
    assert raised.value.path.startswith(str(source))


def test_certificate_says_that_tables_of_an_unsupported_form_were_not_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = move_whole_files(relocated(NATIVE, tmp_path / "source"), tmp_path / "target")

    def refuse(*_: object) -> None:
        raise UnsupportedError("a form that is not read")

    monkeypatch.setattr("rescale.execution.compare.validation.compare.BlockChecksums", refuse)
    assert "checksums of their blocks were not checked" in statement_of(plan, Proof.RECORDS)


def test_rows_of_new_directories_are_read_in_a_proof_by_records(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")
    plan = move_whole_files(source, tmp_path / "target", "3")
    assert UNCHANGED not in statement_of(plan, Proof.RECORDS)
    assert BY_FILES not in statement_of(plan, Proof.RECORDS)
    assert UNCHANGED not in statement_of(plan, Proof.FILES)
    assert BY_FILES in statement_of(plan, Proof.FILES)


def begin_late(file: LiveFile) -> LiveFile:
    """Let the key range of a file with two rows begin after the first."""
    if file.smallest_user_key == file.largest_user_key:
        return file
    key = file.smallest_key
    return replace(file, smallest_key=key._replace(user_key=key.user_key + b"\0"))


def manifest_change(change: Callable[[LiveFile], LiveFile]) -> Callable[[bytes], bytes]:
    def changed_manifest(data: bytes) -> bytes:
        manifest = read_manifest(data, "MANIFEST")
        families = tuple(replace(family, files=tuple(map(change, family.files))) for family in manifest.column_families)
        return write_manifest(replace(manifest, column_families=families), "MANIFEST")

    return changed_manifest


def test_wrong_key_range_in_a_source_manifest_is_found_by_records_but_not_by_files(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")
    assert edit_files(source, "MANIFEST", manifest_change(begin_late))
    plan = move_whole_files(source, tmp_path / "target", "3")
    assert "begin and end with the keys in their MANIFESTs" in statement_of(plan, Proof.FILES)
    with pytest.raises(SnapshotError, match="begins after its first row"):
        validate_coverage(plan, InProcessTasks(), Proof.RECORDS)


def test_wrong_file_size_in_a_source_manifest_is_refused_by_the_plan(tmp_path: Path) -> None:
    source = relocated(NATIVE, tmp_path / "source")
    assert edit_files(source, "MANIFEST", manifest_change(lambda file: replace(file, size=file.size - 1)))
    with pytest.raises(SnapshotError, match="differs from the MANIFEST"):
        plan_rescale(str(source), str(tmp_path / "target"), ["3"])
