"""Files of a base are in its continuation as they are, and files with changes lie above all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from unittest.mock import Mock, patch

import pytest

from rescale.execution.compare.validation.base_files import compare_files_of_base, files_above_base
from rescale.execution.compare.validation.compare import FileCheck
from rescale.execution.compare.validation.coverage import FilePair
from rescale.plan.prepared_files import span_digest
from rescale.rocksdb.manifest.manifest import Manifest
from rescale.rocksdb.manifest.version_edit import LiveFile
from rescale.runstate.certificate import CertifiedChecksums
from rescale.runstate.follower.compared_copies import ComparedCopies, ComparedCopy
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.contract import Pin, Span
from rescale.text.errors import IntegrityError
from support.snapshots import opened

_LEVEL = 5
"""Level of all files of the base."""

Change = Callable[[tuple[LiveFile, ...]], tuple[LiveFile, ...]]


@pytest.fixture
def operator() -> Operator:
    """Return an operator whose databases stand for a base."""
    return next(o for o in with_tables(opened("2-rocksdb-native")).operators if o.databases)


@pytest.fixture
def base(operator: Operator) -> Database:
    return with_changed_files(operator.databases[0], lambda files: tuple(replace(file, level=_LEVEL) for file in files))


def with_changed_files(database: Database, change: Change) -> Database:
    """Return the database after applying `change` to the files of each column family that has files."""
    assert database.source is not None
    manifest: Manifest = database.source.manifest
    families = tuple(
        replace(family, files=change(family.files)) if family.files else family for family in manifest.column_families
    )
    return replace(database, source=replace(database.source, manifest=replace(manifest, column_families=families)))


def last_sequence(database: Database) -> int:
    assert database.source is not None
    return database.source.manifest.last_sequence


def test_files_that_only_the_result_has_are_those_above_the_base(operator: Operator, base: Database) -> None:
    assert not any(files_above_base(base, base, operator))
    first_sequence = last_sequence(base) + 1
    for level in range(1, _LEVEL):
        new = with_changed_files(
            base,
            lambda files, at=level: (*files, replace(files[0], number=99, level=at, smallest_sequence=first_sequence)),
        )
        assert files_above_base(base, new, operator).added_names == {"000099.sst"}


@pytest.mark.parametrize(
    "change",
    [
        lambda files: files[1:],
        lambda files: (replace(files[0], size=files[0].size + 1), *files[1:]),
        lambda files: (replace(files[0], level=_LEVEL - 1), *files[1:]),
        lambda files: (replace(files[0], smallest_sequence=0), *files[1:]),
    ],
    ids=["missing", "other size", "other level", "other sequence number"],
)
def test_file_of_the_base_that_is_not_as_it_was_is_found(operator: Operator, base: Database, change: Change) -> None:
    assert base.source is not None
    name = min(family.files[0].name for family in base.source.manifest.column_families if family.files)
    with pytest.raises(IntegrityError, match="a file of the base is missing or different in the result") as caught:
        files_above_base(base, with_changed_files(base, change), operator)
    assert caught.value.operator == operator.label
    assert str(caught.value.expected) == str(base.source.manifest.files[name])


@pytest.mark.parametrize(("level", "sequence_offset"), [(0, 1), (_LEVEL, 1), (_LEVEL + 1, 1), (_LEVEL - 1, 0)])
def test_new_file_that_is_not_above_the_base_is_found(
    level: int, sequence_offset: int, operator: Operator, base: Database
) -> None:
    first_sequence = last_sequence(base) + sequence_offset

    def add(files: tuple[LiveFile, ...]) -> tuple[LiveFile, ...]:
        return (*files, replace(files[0], number=99, level=level, smallest_sequence=first_sequence))

    with pytest.raises(IntegrityError, match="does not lie above the files of the base") as caught:
        files_above_base(base, with_changed_files(base, add), operator)
    assert caught.value.found == f"000099.sst in level {level}, from number {first_sequence} on"


@pytest.mark.parametrize(("result_etag", "is_read"), [(7, False), (8, True)])
def test_file_to_which_the_result_refers_is_compared_only_in_another_version(result_etag: int, is_read: bool) -> None:
    base, result = (
        SnapshotFiles((("_metadata", Pin(1)), ("s3://bucket/base/file.sst", Pin(10, etag=str(etag)))))
        for etag in (7, result_etag)
    )
    extent = Extent(1, 0, 10)
    tasks, get_checksums = Mock(), Mock(return_value=())
    with patch("rescale.storage.s3.s3_store.S3Store.checksums", get_checksums):
        compare_files_of_base(base, result, [FileCheck(0, "op", FilePair(0, "file.sst", extent, extent))], tasks)
    assert (get_checksums.called, tasks.run.called) == (is_read, is_read)


@pytest.mark.parametrize(("result_etag", "is_read"), [("copy", False), ("another", True)])
def test_copy_that_was_compared_ahead_is_not_compared_again(result_etag: str, is_read: bool) -> None:
    pins = Pin(10, etag="parts-2"), Pin(10, etag=result_etag)
    original = Span("s3://bucket/base/file", 0, 10, pins[0])
    copy_name = f"0-keyed-0-prepared-{span_digest(original)}.sst"
    base = SnapshotFiles((("_metadata", Pin(1)), (original.uri, pins[0])))
    result = SnapshotFiles((("_metadata", Pin(1)), (f"s3://bucket/target/{copy_name}", pins[1])))
    copies = ComparedCopies({copy_name: ComparedCopy(copy_name, 10, "copy", "CRC64NVME")})
    check = FileCheck(3, "op", FilePair(0, "file.sst", Extent(1, 0, 10), Extent(1, 0, 10)))
    tasks, get_checksums = Mock(), Mock(return_value=())
    with patch("rescale.storage.s3.s3_store.S3Store.checksums", get_checksums):
        checksums_by_operator = compare_files_of_base(base, result, [check], tasks, copies)
    assert (get_checksums.called, tasks.run.called) == (is_read, is_read)
    assert checksums_by_operator == ({} if is_read else {3: CertifiedChecksums(("CRC64NVME",), 10)})


def test_directory_without_its_counterpart_is_found(operator: Operator, base: Database) -> None:
    for before, after in ((None, base), (base, None), (base, replace(base, source=None))):
        with pytest.raises(IntegrityError, match="do not have directories for the same key groups"):
            files_above_base(before, after, operator)
