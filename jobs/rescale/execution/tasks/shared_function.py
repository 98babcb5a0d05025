"""Work that is sent to tasks and unpickled once by each worker, however many tasks the worker runs.

A task refers to everything that its function refers to, and a plan of thousands of streams takes the better part of a
second to unpickle, perhaps as long as the task's own work. So large objects are sent as bytes, and a worker caches the
last object that it unpickled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

import cloudpickle

from rescale.storage.files import owned

W = TypeVar("W")


@dataclass(frozen=True)
class SharedFunction(Generic[W]):
    """Immutable part of the work, which all tasks of a worker share."""

    packed: bytes
    protected: tuple[str, ...]
    """Directories that tasks must not change, as in the process that sends the work."""

    @classmethod
    def of(cls, work: W) -> SharedFunction[W]:
        return cls(cloudpickle.dumps(work), owned.protected_folders())

    def unpacked(self) -> W:
        owned.protect(self.protected)
        work: W = _unpacked(self.packed)
        return work


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Any:
    return cloudpickle.loads(packed)
