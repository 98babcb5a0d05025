"""`rescale` over a bucket in memory, in this process: no network, no threads, no pauses, no output.

Parallel work is done sequentially, in a random order.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Generic, NamedTuple, TypeVar
from unittest.mock import patch

from rescale.execution.progress import Progress
from rescale.execution.writers.rocksdb import rows_writer
from rescale.plan import plan
from rescale.planning import planner
from rescale.planning.streams import database_streams, inline
from rescale.rocksdb.assembly import compaction
from rescale.rocksdb.engine import open_database
from rescale.runstate import claim
from rescale.storage.contract import PartLimits
from rescale.storage.s3.s3_store import S3Store
from simulation.bucket import SMALLEST_PART_BYTES
from simulation.clock import Clock
from simulation.native_databases import ONE_THREAD_OPTION, scratch_folder
from simulation.neighbours import put_foreign_in_scratch
from simulation.reader_cache import cached_readers, clear_caches
from simulation.toxics import Client

R = TypeVar("R")


class Sizes(NamedTuple):
    """Sizes in bytes, so small that small files count as large; `foreign_share` replaces `MOST_FOREIGN_SHARE`."""

    part_size: int
    chunk_size: int
    inline_limit: int
    table_bytes: int
    foreign_share: float


class _CurrentHistory:
    """Store of the current history, None before the first one, and its order of parallel work."""

    store: S3Store | None = None
    order: Random


@contextmanager
def installed() -> Iterator[None]:
    """Install the bucket for a block, in which any number of histories may be played one after the other."""
    patches = (
        patch("rescale.storage.store._s3", lambda: _CurrentHistory.store),
        patch("rescale.storage.s3.pinned_objects.time.sleep", lambda _: None),
        patch("rescale.storage.side_by_side.ThreadPoolExecutor", SequentialPool),
        patch("rescale.snapshot.reading.opening.ThreadPoolExecutor", SequentialPool),
        patch("rescale.rocksdb.engine.directory.ThreadPoolExecutor", SequentialPool),
        patch.object(Progress, "say", lambda *_: None),
        *(
            patch.object(module, "_OPEN_OPTIONS", f"{module._OPEN_OPTIONS};{ONE_THREAD_OPTION}")
            for module in (open_database, compaction)
        ),
    )
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=scratch_folder()))
        stack.enter_context(patch.dict(os.environ, {"SPARK_LOCAL_DIRS": folder}))
        take_own_scratch()
        for context in (*patches, cached_readers()):
            stack.enter_context(context)
        yield


def take_own_scratch() -> None:
    """Give this process a new scratch directory inside the present one.

    A history checks its scratch directory for changes, so processes must not share one.
    """
    folder = tempfile.mkdtemp(dir=os.environ["SPARK_LOCAL_DIRS"])
    put_foreign_in_scratch(Path(folder))
    os.environ["SPARK_LOCAL_DIRS"] = folder


@contextmanager
def installed_for_history(client: Client, order: Random, sizes: Sizes, clock: Clock) -> Iterator[None]:
    """Install the client, order of work, sizes and clock of a history, which is played in the block."""
    store = S3Store(client)  # type: ignore[arg-type] # the client answers all requests that the store makes
    store.part_limits = PartLimits(smallest_part_bytes=SMALLEST_PART_BYTES, most_parts=10_000)
    _CurrentHistory.store, _CurrentHistory.order = store, order
    with (
        patch.object(planner, "PART_SIZE", sizes.part_size),
        patch.object(planner, "CHUNK_SIZE", sizes.chunk_size),
        patch.object(inline, "INLINE_LIMIT", sizes.inline_limit),
        patch.object(database_streams, "MOST_FOREIGN_SHARE", sizes.foreign_share),
        patch.object(rows_writer, "TABLE_BYTES", sizes.table_bytes),
        patch.object(claim, "datetime", clock),
        _release_restored(),
    ):
        yield


@contextmanager
def _release_restored() -> Iterator[None]:
    """Restore the present release after the block; if another one was installed, clear the cache of its plans."""
    with patch.object(plan, "PLAN_FORMAT", plan.PLAN_FORMAT), patch.object(planner, "PLAN_FORMAT", planner.PLAN_FORMAT):
        format_before = plan.PLAN_FORMAT
        try:
            yield
        finally:
            if format_before != plan.PLAN_FORMAT:
                clear_caches("plan_from_json")


def install_release() -> None:
    """Install another release, with other plans, until the history is over."""
    plan.PLAN_FORMAT += 1
    planner.PLAN_FORMAT += 1
    clear_caches("plan_from_json")


class CompletedFuture(Generic[R]):
    """Completed future, with the result of the work or its error."""

    __slots__ = ("_error", "_value")

    def __init__(self, work: Callable[..., R], arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
        self._error: Exception | None = None
        try:
            self._value = work(*arguments, **named)
        except Exception as error:
            self._error = error

    def result(self) -> R:
        if self._error is not None:
            raise self._error
        return self._value


class SequentialPool:
    """Thread pool that works in the caller's thread, so that a kill during any work kills the whole process."""

    def __init__(self, max_workers: int) -> None:
        pass

    def __enter__(self) -> SequentialPool:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def shutdown(self, *, cancel_futures: bool = False) -> None:
        pass

    def submit(self, work: Callable[..., R], /, *arguments: Any, **named: Any) -> CompletedFuture[R]:
        return CompletedFuture(work, arguments, named)

    def map(self, work: Callable[..., R], *iterables: Iterable[Any]) -> Iterator[R]:
        calls = list(zip(*iterables, strict=False))
        indices = list(range(len(calls)))
        _CurrentHistory.order.shuffle(indices)
        future_by_index = {i: CompletedFuture(work, calls[i], {}) for i in indices}
        return iter([future_by_index[i].result() for i in range(len(calls))])
