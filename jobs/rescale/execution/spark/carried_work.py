"""Work on its way to tasks: a worker unpacks it once, however many of the tasks it gets.

Spark sends every task the function that it runs, and the task unpickles all that hangs on it. A plan of thousands of
streams takes the better part of a second each time, for a slice of units that may take as long. So what is large
travels as bytes in that function, and who has unpacked the same bytes before has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pyspark.serializers import CloudPickleSerializer

W = TypeVar("W")

_SERIALIZER: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class CarriedWork(Generic[W]):
    """What does not change as it works: tasks of one worker share it."""

    packed: bytes

    @classmethod
    def of(cls, work: W) -> CarriedWork[W]:
        return cls(_SERIALIZER.dumps(work))

    def unpacked(self) -> W:
        work: W = _unpacked(self.packed)
        return work


@lru_cache(maxsize=1)
def _unpacked(packed: bytes) -> Any:
    return _SERIALIZER.loads(packed)
