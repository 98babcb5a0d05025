"""The part of a plan that says which earlier result the plan continues.

The earlier result, the *base*, was made from an earlier checkpoint of the same job. A run reads keys only from the SST
files that may hold changes between that checkpoint and the plan's source (`ChangePlace`). It writes the changed rows to
new SST files, in a level above those of the base's files.
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
    """A RocksDB directory of the base; `changes` is the level and the sequence number of the changed rows to write."""

    database: DatabasePlace[Piece]
    changes: ChangesPlace

    @property
    def sequence_number(self) -> int:
        """Sequence number of all changed rows."""
        return self.changes.sequence
