"""Comparison of an earlier result (the base) with the result that continues it, file by file.

The result must have every SST file of the base at the same level, and its new files above these. A file is proven if
the result refers to the base's own file, if both names are hard links to one local file, if the store's checksums are
equal, or if the bytes are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescale.execution.compare.validation.compare import Comparer, FileCheck
from rescale.execution.compare.validation.coverage import FilePair
from rescale.execution.compare.validation.headers import RERUN_ADVICE
from rescale.execution.compare.validation.store_checksums import matching_checksums
from rescale.execution.progress import ByteAction, Progress
from rescale.execution.tasks.protocol import Tasks
from rescale.rocksdb.database_layout import LEVEL_COUNT
from rescale.runstate.certificate import CertifiedChecksums
from rescale.runstate.follower.compared_copies import NO_COPIES, ComparedCopies
from rescale.snapshot.databases.unshared_tables import UnsharedTables
from rescale.snapshot.keyed_state import Database
from rescale.snapshot.model import Operator
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.contract import Span
from rescale.storage.keeping import is_one_file
from rescale.text.errors import IntegrityError


def compare_files_of_base(
    base: SnapshotFiles,
    result: SnapshotFiles,
    checks: Sequence[FileCheck],
    tasks: Tasks,
    copies: ComparedCopies = NO_COPIES,
) -> dict[int, CertifiedChecksums]:
    """Compare the base's files with the result's; return which bytes the store's checksums proved, by operator.

    A file is read only if base and result do not share it, and no checksum proves it. `copies` are copies that were
    proven by their checksums before.
    """
    separate_checks = [check for check in checks if not _is_one_file(base, result, check.pair)]
    algorithm_by_check = {
        check: algorithm
        for check in separate_checks
        if (algorithm := _earlier_algorithm(base, result, check.pair, copies)) is not None
    }
    checksum_by_check = matching_checksums(
        base, result, [check for check in separate_checks if check not in algorithm_by_check]
    )
    algorithm_by_check |= {check: checksum.algorithm for check, checksum in checksum_by_check.items()}
    sized_checks = [(check.pair.result.length, check) for check in separate_checks if check not in algorithm_by_check]
    if sized_checks:
        progress = Progress(
            "compare files of the base", sum(size for size, _ in sized_checks), ByteAction.READ_ON_BOTH_SIDES
        )
        tasks.run(Comparer(base, result.without_pins()), sized_checks, progress)
    checksums_by_operator: dict[int, CertifiedChecksums] = {}
    for check, algorithm in algorithm_by_check.items():
        checksums_before = checksums_by_operator.get(check.operator_index, CertifiedChecksums((), 0))
        algorithms = tuple(sorted({*checksums_before.algorithms, algorithm}))
        checksums_by_operator[check.operator_index] = CertifiedChecksums(
            algorithms, checksums_before.bytes + check.pair.result.length
        )
    return checksums_by_operator


def _earlier_algorithm(
    base: SnapshotFiles, result: SnapshotFiles, pair: FilePair, copies: ComparedCopies
) -> str | None:
    """Return the algorithm of the checksum by which a file was proven before; None if it was not."""
    if not (base.is_whole(pair.source) and result.is_whole(pair.result)):
        return None
    (uri, pin), (copy_uri, copy_pin) = base.pinned_files[pair.source.file], result.pinned_files[pair.result.file]
    assert pin is not None
    return copies.algorithm_of(Span(uri, pair.source.start, pair.source.length, pin), copy_uri, copy_pin)


def files_of_base(operator_index: int, before: Operator, after: Operator) -> Iterator[FileCheck]:
    """Yield a check of every SST file of the base against the file of that name in the result."""
    new_databases = {database.key_groups: database for database in after.databases}
    for database in before.databases:
        extents_by_name = {file.name: file.extent for file in new_databases[database.key_groups].files}
        for table in database.tables:
            pair = FilePair(database.subtask, table.file.name, table.extent, extents_by_name[table.file.name])
            yield FileCheck(operator_index, after.label, pair)


def files_above_base(before: Database | None, after: Database | None, operator: Operator) -> UnsharedTables:
    """Return the SST files that only the result has.

    Raises `IntegrityError` if one of them does not lie above the base's files, or if the result lacks a file of the
    base.
    """
    if before is None or after is None or before.source is None or after.source is None:
        raise IntegrityError(
            "the result and its base do not have directories for the same key groups",
            operator=operator.label,
            advice=RERUN_ADVICE,
        )
    base_manifest, result_manifest = before.source.manifest, after.source.manifest
    base_files, result_files = base_manifest.files, result_manifest.files
    states_by_side = [
        {file.name: family.name for family in manifest.column_families for file in family.files}
        for manifest in (base_manifest, result_manifest)
    ]
    if differing_names := sorted(
        name
        for name, file in base_files.items()
        if result_files.get(name) != file or states_by_side[0][name] != states_by_side[1][name]
    ):
        raise IntegrityError(
            "a file of the base is missing or different in the result",
            path=after.source.uri,
            operator=operator.label,
            expected=base_files[differing_names[0]],
            found=result_files.get(differing_names[0]),
            advice=RERUN_ADVICE,
        )
    top_level = min((file.level for file in base_files.values()), default=LEVEL_COUNT)
    for name in sorted(result_files.keys() - base_files.keys()):
        file = result_files[name]
        if not 0 < file.level < top_level or file.smallest_sequence <= base_manifest.last_sequence:
            raise IntegrityError(
                "a file with changes does not lie above the files of the base",
                path=after.source.uri,
                operator=operator.label,
                expected=f"a level between 0 and {top_level}, and sequence numbers above {base_manifest.last_sequence}",
                found=f"{name} in level {file.level}, from number {file.smallest_sequence} on",
                advice=RERUN_ADVICE,
            )
    return UnsharedTables(frozenset(), frozenset(result_files.keys() - base_files.keys()))


def _is_one_file(base: SnapshotFiles, result: SnapshotFiles, pair: FilePair) -> bool:
    """Return whether the result refers to the base's own file in the same version, or has a hard link to it.

    `base` and `result` have the versions that the files had when both snapshots were opened.
    """
    if not (base.is_whole(pair.source) and result.is_whole(pair.result)):
        return False
    if base.uri(pair.source) == result.uri(pair.result):
        base_version, result_version = base.pinned_files[pair.source.file][1], result.pinned_files[pair.result.file][1]
        return base_version is not None and base_version.matches(result_version)
    return is_one_file(base.uri(pair.source), result.uri(pair.result))
