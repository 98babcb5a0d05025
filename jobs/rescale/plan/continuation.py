"""Continuation of an earlier result of an operator: the data that may have changed, and the data that is kept.

The earlier result, the *base*, was made from another checkpoint of the same job. Keys are only read from files that one
of the two checkpoints has and the other has not. The changed rows go above the base's own files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.plan.new_streams import SourceFiles
from rescale.plan.pieces import Piece
from rescale.rocksdb.assembly.continued_database import ChangesPlace


@dataclass(frozen=True)
class ContinuedResult:
    """The result that a plan continues: its directory, the digest of its plan, and the SHA-256 of its `_metadata`.

    `source` is the checkpoint from which it was made.
    """

    target: str
    plan: str
    metadata_sha256: str
    source: str


class ChangedSide(NamedTuple):
    """A RocksDB directory in one of the checkpoints; `own` are the SST files whose keys are read, by name."""

    files: SourceFiles
    own: tuple[str, ...]


class PassedFile(NamedTuple):
    """An SST file of a state that was written and compacted away between two checkpoints, with its name."""

    state: str
    name: str
    piece: Piece


class ChangedDatabase(NamedTuple):
    """A RocksDB directory `before` and `after`; None if it does not exist there. Both hold these key groups.

    `key_group_sizes` estimates the bytes of changed files that belong to each key group. `passed` are files that
    neither of the two has.
    """

    key_groups: tuple[int, int]
    key_group_sizes: tuple[int, ...]
    before: ChangedSide | None
    after: ChangedSide | None
    passed: tuple[PassedFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the files that are not in both directories."""
        sides = (side for side in (self.before, self.after) if side is not None)
        own = sum(piece.length for side in sides for name, piece in side.files.files if name in side.own)
        return own + sum(file.piece.length for file in self.passed)


class BaseDatabase(NamedTuple):
    """A RocksDB directory of the base, and the place of the changes above its files."""

    files: SourceFiles
    place: ChangesPlace

    @property
    def sequence(self) -> int:
        """Sequence number of all changed rows."""
        return self.place.sequence


class Continuation(NamedTuple):
    """Continuation of a base: the `changes` to read, and the directory with which each new stream begins, in order."""

    changes: tuple[ChangedDatabase, ...]
    bases: tuple[BaseDatabase, ...]

    @property
    def base_bytes(self) -> int:
        """Bytes of the base's files."""
        return sum(base.files.size for base in self.bases)
