"""What stands against states in RocksDB's directories: names that a column family cannot have."""

from __future__ import annotations

from rescale.errors import UnsupportedError
from rescale.flink.advice import CANONICAL, CANONICAL_RESULT
from rescale.planning.asked.request import Format
from rescale.planning.asked.result_kind import becomes_databases
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY
from rescale.snapshot.model import Operator


def refuse_names(operator: Operator, wanted: Format) -> None:
    """`UnsupportedError` for a name that RocksDB's library cuts off, or that `RocksDBOperationUtils` refuses.

    States of a snapshot's own directories have names that Flink takes, but not each of them the library does.
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
                "a state's name has a zero character in it, at which RocksDB's library would end it",
                operator=operator.label,
                state=name,
                advice=advice,
            )
        if name == DEFAULT_COLUMN_FAMILY:
            raise UnsupportedError(
                "a state has the name that RocksDB keeps for itself: Flink's RocksDB takes no such state",
                operator=operator.label,
                state=name,
                advice=f"{CANONICAL_RESULT}, for a job on the heap",
            )
