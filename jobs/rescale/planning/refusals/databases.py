"""Refusals of state names that a RocksDB column family cannot have."""

from __future__ import annotations

from rescale.flink.advice import CANONICAL, CANONICAL_RESULT
from rescale.planning.request.result_files import Format
from rescale.planning.request.result_kind import becomes_databases
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY
from rescale.snapshot.model import Operator
from rescale.text.advice import Advice
from rescale.text.errors import UnsupportedError


def refuse_names(operator: Operator, wanted: Format) -> None:
    """Raise `UnsupportedError` for a name that RocksDB's library truncates, or that `RocksDBOperationUtils` refuses.

    Names in the source's own directories are valid in Flink, but RocksDB's library does not accept all of them.
    """
    are_databases = becomes_databases(operator, Format.KEEP)
    if not (are_databases or becomes_databases(operator, wanted)):
        return
    left_out = frozenset[str]() if are_databases else operator.left_out  # all states of a directory are opened
    advice = CANONICAL if are_databases else CANONICAL_RESULT
    for name in dict.fromkeys(s.name for header in operator.keyed_headers if header for s in header.states):
        if name in left_out:
            continue
        if "\0" in name:
            raise UnsupportedError(
                "the name of a state has a NUL character, where RocksDB's library would cut it off",
                operator=operator.label,
                state=name,
                advice=advice,
            )
        if name == DEFAULT_COLUMN_FAMILY:
            raise UnsupportedError(
                "a state has the name that RocksDB reserves for itself, so Flink's RocksDB backend refuses it",
                operator=operator.label,
                state=name,
                advice=Advice(CANONICAL_RESULT, ", for a job on the heap"),
            )
