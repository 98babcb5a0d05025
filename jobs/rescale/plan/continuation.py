"""The part of a plan that says which earlier result it continues.

The earlier result, the *base*, was made from an earlier checkpoint of the same job. Keys are only read from files that
one of the two checkpoints has and the other has not (`ChangePlace`). The changed rows are written to new SST files, in
levels above those of the base's own files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.plan.pieces import Piece
from rescale.rocksdb.assembly.new_database import ChangesPlace
from rescale.snapshot.places import DatabasePlace


@dataclass(frozen=True)
class ContinuedResult:
    """The result that a plan continues: its directory, the digest of its plan, and the SHA-256 of its `_metadata`.

    `source` is the checkpoint from which the result was made.
    """

    target: str
    plan: str
    metadata_sha256: str
    source: str


class BaseDatabase(NamedTuple):
    """A RocksDB directory of the base; `changes` has the level and sequence number that new changed rows get."""

    database: DatabasePlace[Piece]
    changes: ChangesPlace

    @property
    def sequence_number(self) -> int:
        """Sequence number of all changed rows."""
        return self.changes.sequence
