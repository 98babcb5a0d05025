"""A proof by files finds every planted fault; a proof by records finds those that show in rows."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.plan.proof import Proof
from rescale.rocksdb.manifest.edit_reader import InternalKey
from rescale.rocksdb.manifest.version_edit import RANGE_DELETION, LiveFile
from rescale.rocksdb.sst.tombstone import write_tombstone
from rescale.text.errors import IntegrityError
from support import snapshots
from support.edited import relocated
from support.pipeline import execute_without_spark, plan_rescale
from support.spoilt import NATIVE, SpoiltResult, flip, own_file, publish_result, range_file


@pytest.fixture(scope="module")
def result_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    publish_result(folder, "copy")
    return folder


@pytest.fixture
def spoilt(result_folder: Path, tmp_path: Path) -> SpoiltResult:
    shutil.copytree(result_folder / "source", tmp_path / "source")
    shutil.copytree(result_folder / "target", tmp_path / "target")
    return SpoiltResult(tmp_path / "source" / Path(snapshots.directory(NATIVE)).name, tmp_path / "target")


def flip_byte(spoilt: SpoiltResult) -> None:
    flip(spoilt.path(0, own_file(spoilt).name), 20)


def cut_file(spoilt: SpoiltResult) -> None:
    path = spoilt.path(0, own_file(spoilt).name)
    path.write_bytes(path.read_bytes()[:-7])


def remove_file(spoilt: SpoiltResult) -> None:
    spoilt.path(0, own_file(spoilt).name).unlink()


def forget_file(spoilt: SpoiltResult) -> None:
    """Remove a file from MANIFEST and handle."""
    name = own_file(spoilt).name
    spoilt.change(0, lambda file: None if file.name == name else file)


def forget_range_file(spoilt: SpoiltResult) -> None:
    name = range_file(spoilt).name
    spoilt.change(0, lambda file: None if file.name == name else file)


def widen_range(spoilt: SpoiltResult) -> None:
    """Plant a range tombstone that hides some of the subtask's own rows."""
    range_table, family = range_file(spoilt), spoilt.state_with_tombstones(0)
    begin, end = range_table.smallest_user_key, range_table.largest_user_key
    own = spoilt.databases()[0].key_groups
    if begin == bytes([own.last + 1]):
        begin = bytes([own.last])
    else:
        end = bytes([own.first + 1])
    sequence = range_table.smallest_sequence
    data = write_tombstone(begin, end, sequence, column_family=(family.id, family.name), creation_time=1)
    path = spoilt.path(0, range_table.name)
    spoilt.resize({path.name: spoilt.put(path, data)})
    changed_file = replace(
        range_table,
        size=len(data),
        smallest_key=InternalKey(begin, sequence, RANGE_DELETION),
        largest_key=range_table.largest_key._replace(user_key=end),
    )
    spoilt.change(0, lambda file: changed_file if file.name == range_table.name else file)


def change_sequence(spoilt: SpoiltResult) -> None:
    """Give a file in level 0 another smallest sequence number in the MANIFEST."""
    newest = own_file(spoilt)
    assert newest.level == 0
    spoilt.change(
        0,
        lambda file: replace(file, smallest_sequence=file.smallest_sequence - 1) if file.name == newest.name else file,
    )


def change_level(spoilt: SpoiltResult) -> None:
    name = own_file(spoilt).name
    spoilt.change(0, lambda file: replace(file, level=3) if file.name == name else file)


def age_range(spoilt: SpoiltResult) -> None:
    """Plant a range tombstone that is older than the rows that it must hide, in the file and in the MANIFEST."""
    range_table, family = range_file(spoilt), spoilt.state_with_tombstones(0)
    data = write_tombstone(
        range_table.smallest_user_key,
        range_table.largest_user_key,
        1,
        column_family=(family.id, family.name),
        creation_time=1,
    )
    path = spoilt.path(0, range_table.name)
    spoilt.resize({path.name: spoilt.put(path, data)})
    key = range_table.smallest_key._replace(sequence=1)
    changed_file = replace(range_table, size=len(data), smallest_key=key, smallest_sequence=1, largest_sequence=1)
    spoilt.change(0, lambda file: changed_file if file.name == range_table.name else file)


def damage_range_file(spoilt: SpoiltResult) -> None:
    flip(spoilt.path(0, range_file(spoilt).name), 10)


def change_options(spoilt: SpoiltResult) -> None:
    (name,) = (file.name for file in spoilt.databases()[0].files if file.name.startswith("OPTIONS"))
    path = spoilt.path(0, name)
    path.write_bytes(path.read_bytes().replace(b"max_open_files", b"max_open_fileS"))


def test_intact_result_passes_by_records_and_by_files(spoilt: SpoiltResult) -> None:
    for proof in (Proof.RECORDS, Proof.FILES):
        assert spoilt.validate(proof).proof == proof
    assert range_file(spoilt)


BOTH, FILES = (Proof.RECORDS, Proof.FILES), (Proof.FILES,)
"""Proofs that find a fault: a proof by records finds all faults but those that no row shows."""


@pytest.mark.parametrize(
    ("plant", "found_by", "message"),
    [
        (flip_byte, BOTH, r"differs between the result and the source|cannot be read back"),
        (cut_file, BOTH, "cannot be read as a snapshot"),
        (remove_file, BOTH, "files of the result are missing|cannot be read as a snapshot"),
        (forget_file, BOTH, "is missing"),
        (forget_range_file, BOTH, "rows outside of the subtask's key groups are not hidden"),
        (widen_range, BOTH, "a range tombstone covers key groups of the subtask"),
        (change_sequence, BOTH, "order of age"),
        (change_level, BOTH, "another level, size or key range"),
        (age_range, BOTH, "not newer than the rows that it must hide"),
        (damage_range_file, BOTH, "cannot be read back"),
        (change_options, FILES, "differs between the result and the source"),
    ],
)
def test_planted_fault_is_found(
    plant: Callable[[SpoiltResult], None], found_by: Sequence[Proof], message: str, spoilt: SpoiltResult
) -> None:
    plant(spoilt)
    for proof in found_by:
        with pytest.raises(IntegrityError, match=message) as caught:
            spoilt.validate(proof)
        assert caught.value.exit_code == 4
        assert caught.value.path
        assert str(spoilt.target) in caught.value.path


@pytest.fixture(scope="module")
def rewritten_result(tmp_path_factory: pytest.TempPathFactory) -> SpoiltResult:
    """Return a result whose directories RocksDB has rewritten, so that they are proven by records."""
    folder = tmp_path_factory.mktemp("rewritten")
    source = relocated(NATIVE, folder / "source")
    with patch("rescale.planning.streams.inline.INLINE_LIMIT", 0):
        plan = plan_rescale(str(source), str(folder / "target"), ["3"], files="copy")
    assert any(operator.compacted for operator in plan.operators)
    execute_without_spark(plan)
    return SpoiltResult(source, folder / "target")


def begin_late(file: LiveFile) -> LiveFile:
    key = file.smallest_key
    return replace(file, smallest_key=key._replace(user_key=key.user_key + b"\0"))


def end_early(file: LiveFile) -> LiveFile:
    return replace(file, largest_key=file.largest_key._replace(user_key=file.smallest_user_key))


@pytest.mark.parametrize(
    ("change", "message"), [(begin_late, "begins after its first row"), (end_early, "ends before its last row")]
)
def test_manifest_with_narrower_key_range_than_the_rows_of_a_file_is_found(
    change: Callable[[LiveFile], LiveFile], message: str, rewritten_result: SpoiltResult, tmp_path: Path
) -> None:
    """A job would not find these rows, though iterators see all of them."""
    shutil.copytree(rewritten_result.target, tmp_path / "target")
    spoilt = SpoiltResult(rewritten_result.source, tmp_path / "target")
    spoilt.change(0, change)
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(
            IntegrityError, match=f"cannot be read back: the key range of .* in the MANIFEST {message}"
        ) as caught:
            spoilt.validate(proof)
        assert caught.value.path == str(spoilt.manifest(0)[0])
        assert caught.value.operator
        assert caught.value.state
        assert caught.value.expected != caught.value.found
        assert caught.value.advice == "ask for a canonical result (--format canonical)"
