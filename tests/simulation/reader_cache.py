"""Caches of readers, which are pure functions of bytes: equal bytes are read once.

A history opens the same snapshots at each step and each try. The original functions read all bytes the first time,
damaged ones too; errors are not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any
from unittest.mock import patch

_READERS = (
    ("rescale.snapshot.reading.opening", "read_metadata"),
    ("rescale.snapshot.reading.stream_reader", "read_keyed_header"),
    ("rescale.snapshot.reading.stream_reader", "read_operator_state_header"),
    ("rescale.execution.sources.planned_records", "read_keyed_header"),
    ("rescale.runstate.candidate", "read_keyed_handle"),
    ("rescale.runstate.candidate", "read_operator_handle"),
    ("simulation.contents", "read_metadata"),
    ("simulation.rows", "read_keyed_header"),
)
"""Functions of a file's bytes and its path, each with the module that calls it; the path occurs only in errors."""

_CACHED_FUNCTIONS = (
    ("rescale.snapshot.reading.opening", "snapshot_type"),
    ("rescale.snapshot.reading.stream_reader", "element_extents"),
    ("rescale.snapshot.reading.stream_reader", "group_extents"),
    ("rescale.snapshot.kafka.offsets", "stopped_the_job"),
    ("rescale.planning.planner", "stopped_the_job"),
    ("rescale.runstate.documents", "plan_from_json"),
    ("rescale.storage.locations", "_s3_uri"),
)
"""Functions that are cached by all their arguments."""

_MOST_CACHED_VALUES = 1000
"""Highest number of cached values of each function."""

_cache_clearers: list[tuple[str, Callable[[], None]]] = []
"""Functions that clear caches, by the names of readers."""


@contextmanager
def cached_readers() -> Iterator[None]:
    with ExitStack() as stack:
        readers: dict[Any, _Reader] = {}
        for module, name in _READERS:
            original = getattr(import_module(module), name)
            reader = readers.setdefault(original, _Reader(original))
            _patch_reader(stack, module, name, reader, reader.value_by_data.clear)
        for module, name in _CACHED_FUNCTIONS:
            cached_function = lru_cache(_MOST_CACHED_VALUES)(getattr(import_module(module), name))
            _patch_reader(stack, module, name, cached_function, cached_function.cache_clear)
        yield


def _patch_reader(stack: ExitStack, module: str, name: str, replacement: Any, clear: Callable[[], None]) -> None:
    stack.enter_context(patch(f"{module}.{name}", replacement))
    _cache_clearers.append((name, clear))
    stack.callback(_cache_clearers.remove, (name, clear))


def clear_caches(reader: str | None = None) -> None:
    """Clear the cache of a reader, or of all readers, because a changed reader reads the same bytes differently."""
    for name, clear in _cache_clearers:
        if reader in (None, name):
            clear()


class _Reader:
    """Reader with a cache by bytes; the path does not matter, because only errors name it."""

    def __init__(self, read: Callable[[bytes, str], Any]) -> None:
        self.value_by_data: dict[bytes, Any] = {}
        self._read = read

    def __call__(self, data: bytes, path: str) -> Any:
        value = self.value_by_data.get(data)
        if value is None:
            value = self._read(data, path)
            if len(self.value_by_data) >= _MOST_CACHED_VALUES:
                self.value_by_data.pop(next(iter(self.value_by_data)))
            self.value_by_data[data] = value
        return value
