"""What the user should know of RocksDB directories that are made of the source's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescale.planning.values.new_streams import CompactedRows, NewDatabase
from rescale.planning.values.operator_plan import OperatorPlan
from rescale.rocksdb.assembly.assembled_database import SLOWS_DOWN


def of_operator(
    label: str, databases: Sequence[NewDatabase], compacted: Sequence[CompactedRows], level_0_files: int
) -> Iterator[str]:
    """Of an operator whose directories are cut and joined; `level_0_files` are the most in one of them."""
    whole = (
        f"{label}: RocksDB opens the files of {len(databases)} subtasks as they are, under a MANIFEST of their own"
        if databases
        else ""
    )
    rewritten = (
        f"in the directories of {len(compacted)} subtasks RocksDB rewrites the files that two subtasks would fetch, or "
        "that hide rows of another subtask"
        if compacted
        else ""
    )
    yield f"{whole}; {rewritten}" if whole and rewritten else whole or f"{label}: {rewritten}"
    if level_0_files >= SLOWS_DOWN:
        yield (
            f"{label}: a directory has {level_0_files} files in level 0; from {SLOWS_DOWN} on RocksDB delays writes "
            "until it has compacted them"
        )


def of_references(source: str, operators: Sequence[OperatorPlan]) -> Iterator[str]:
    """Where files of the source are to be referred to, and where that comes to nothing."""
    files = {piece.file: piece.length for o in operators for one in o.databases for _, piece in one.referred}
    if files:
        keyed = [operator for operator in operators if any(operator.new_keyed_bytes)]
        written = [operator.label for operator in keyed if not any(one.referred for one in operator.databases)]
        if written:
            yield f"{', '.join(written)}: no file can be referred to, and all keyed state is written"
        yield (
            f"the result refers to {len(files)} files of {source} and does not copy them: keep these until the job has "
            "made a full checkpoint of its own, and do not start it in CLAIM mode, in which Flink would delete them"
        )
    else:
        yield (
            "no file can be referred to, and all state is written: the result takes none of the source as it is, as it "
            "does of RocksDB's own only, and of these only while the max parallelism stays; it stands alone"
        )
