"""The writer of each type of stream whose records get new key groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rescale.execution.writers.canonical.canonical_writer import CanonicalWriter
from rescale.execution.writers.protocol import KeyedWriter
from rescale.execution.writers.rocksdb.rows_writer import RowsWriter
from rescale.execution.writers.whole_streams import HeapStreamsWriter, TimersWriter
from rescale.plan.new_streams import (
    RekeyedDirectory,
    RekeyedHeapGroups,
    RekeyedKeyGroups,
    RekeyedStream,
    RekeyedTimers,
)
from rescale.plan.plan import Plan

WRITERS: Mapping[type[RekeyedStream], Callable[[Plan], KeyedWriter[Any, Any]]] = {
    RekeyedKeyGroups: CanonicalWriter,
    RekeyedDirectory: RowsWriter,
    RekeyedHeapGroups: HeapStreamsWriter,
    RekeyedTimers: TimersWriter,
}
"""Factories of the writers, in the order in which a step writes streams."""
