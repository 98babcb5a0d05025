"""A function for tasks that each worker unpickles once, however many of its tasks the worker runs.

The function refers to the plan. Unpickling a plan of thousands of streams takes most of a second, perhaps as long as
the task's own work. So the function is sent as bytes, and a worker caches the last one that it unpickled.
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
    """Pickled function that all tasks of a worker share; it must be immutable."""

    packed: bytes
    protected_folders: tuple[str, ...]
    """Directories that tasks must not change: those that the process that sends the function protects."""

    @classmethod
    def pack(cls, work: W) -> SharedFunction[W]:
        return cls(cloudpickle.dumps(work), owned.protected_folders())

    def unpack(self) -> W:
        owned.protect(self.protected_folders)
        work: W = _load_once(self.packed)
        return work


@lru_cache(maxsize=1)
def _load_once(packed: bytes) -> Any:
    return cloudpickle.loads(packed)
