"""Job that Flink starts from the result in CLAIM mode, which owns the result from then on.

When newer checkpoints have subsumed the result, Flink deletes its `_metadata`, and all its files that no newer
checkpoint uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from simulation.bucket import Bucket

_METADATA = "target/_metadata"


@dataclass
class Owner:
    """A job that owns a result, so that Flink deletes files of the result (CLAIM mode).

    `patience` is the number of requests between the put of `_metadata` and its deletion by Flink. `is_reported` returns
    whether a run has reported the publication. `is_being_published` returns whether a process is about to put
    `_metadata`, or the mark that follows it; as long as this is true, Flink deletes nothing.
    """

    bucket: Bucket
    random: Random
    patience: int
    is_reported: Callable[[], bool]
    is_being_published: Callable[[], bool]
    log: list[str]
    has_taken: bool = False

    def __post_init__(self) -> None:
        self._used_files: dict[str, bytes] = {}
        self._may_come_again = True

    def count_request(self) -> None:
        """Count a request of a run, and take the result when the patience is used up."""
        if self.has_taken or _METADATA not in self.bucket.objects:
            return
        if self.patience:
            self.patience -= 1
        else:
            self.take()

    def take(self) -> None:
        """Take the result, if it is published: delete `_metadata` and some of its files."""
        if self.has_taken or _METADATA not in self.bucket.objects or self.is_being_published():
            return
        self.bucket.remove(_METADATA)
        kept_share = self.random.choice((0, 0.5, 1, 1))
        for name in self.bucket.data_below("target"):
            if self.random.random() >= kept_share:
                self.bucket.remove(f"target/{name}")
        self.has_taken = True
        self._used_files = self.bucket.data_below("target")
        self._may_come_again = not (self._used_files and self.is_reported())
        self.log.append(f"a job owns the result: {len(self._used_files)} files of it are used, `_metadata` is gone")

    def violation(self) -> str | None:
        """Return which file of the job is missing or changed, or that `_metadata` was put again; None if neither."""
        existing = self.bucket.data_below("target")
        for name, data in self._used_files.items():
            if existing.get(name) != data:
                return f"{name}, which a job uses, is missing or changed"
        if _METADATA in self.bucket.objects and not self._may_come_again:
            return "a result that a job owns is published again"
        return None
