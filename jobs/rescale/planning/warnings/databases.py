"""Warnings about RocksDB directories that are made from the source's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescale.plan.new_streams import CompactedDirectory, NewDatabase
from rescale.plan.operator_plan import OperatorPlan
from rescale.rocksdb.assembly.assembled_database import LEVEL_0_SLOWDOWN_FILES


def assembly_warnings(
    label: str, databases: Sequence[NewDatabase], compacted: Sequence[CompactedDirectory], most_level_0_files: int
) -> Iterator[str]:
    """Yield warnings about an operator whose new RocksDB directories are made of the source's files.

    `most_level_0_files` is the largest number of level-0 files in one of the new directories.
    """
    clauses = []
    if databases:
        subtask_count = len(databases)
        clauses.append(
            f"RocksDB opens the files of {subtask_count} subtasks as they are, under a MANIFEST of their own"
        )
    if compacted:
        clauses.append(
            f"in the directories of {len(compacted)} subtasks RocksDB rewrites files that two subtasks would fetch, or "
            "that still hold rows of another subtask"
        )
    if clauses:
        yield f"{label}: {'; '.join(clauses)}"
    if most_level_0_files >= LEVEL_0_SLOWDOWN_FILES:
        yield (
            f"{label}: a directory has {most_level_0_files} files in level 0; from {LEVEL_0_SLOWDOWN_FILES} on RocksDB "
            "delays writes until it has compacted them"
        )


def reference_warnings(source: str, operators: Sequence[OperatorPlan]) -> Iterator[str]:
    """Yield warnings about a result that is to refer to files of the source."""
    files = {piece.file for operator in operators for database in operator.databases for _, piece in database.referred}
    if files:
        keyed_operators = [operator for operator in operators if any(operator.new_keyed_bytes)]
        written_directories = [
            operator.label
            for operator in keyed_operators
            if not any(database.referred for database in operator.databases)
        ]
        if written_directories:
            yield f"{', '.join(written_directories)}: no file can be referred to, and all keyed state is written"
        yield (
            f"the result refers to {len(files)} files of {source} and does not copy them: keep them until the job has "
            "taken a full checkpoint of its own, and do not start the job in CLAIM mode, in which Flink would delete "
            "them"
        )
    else:
        yield (
            "no file can be referred to, and all state is written: a result can only refer to RocksDB's own files, and "
            "only if the max parallelism stays. The result does not depend on the source"
        )
