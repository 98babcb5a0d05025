"""What is read of the same bytes again and again: of pure functions of bytes, whose values never change, once.

A history opens the same snapshots at each step and each try. Its own bytes, however they were spoilt, are read by the
functions themselves the first time, and errors every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any
from unittest.mock import patch

_READERS = (
    ("rescale.snapshot.opening", "read_metadata"),
    ("rescale.snapshot.opening", "snapshot_type"),
    ("rescale.snapshot.stream_reader", "read_keyed_header"),
    ("rescale.snapshot.stream_reader", "read_operator_state_header"),
    ("rescale.execution.sources.planned_records", "read_keyed_header"),
    ("simulation.contents", "read_metadata"),
    ("simulation.rows", "read_keyed_header"),
)
"""Where each is called, by modules."""

_MOST = 300
"""Answers that are kept of each: no more than of the last histories."""

_remembering: dict[tuple[str, str], Any] = {}


@contextmanager
def remembered() -> Iterator[None]:
    with ExitStack() as ending:
        for module, name in _READERS:
            reader = lru_cache(_MOST)(getattr(import_module(module), name))
            ending.enter_context(patch(f"{module}.{name}", reader))
            _remembering[module, name] = reader
        yield


def forget() -> None:
    """What was read before something else reads it."""
    for reader in _remembering.values():
        reader.cache_clear()
