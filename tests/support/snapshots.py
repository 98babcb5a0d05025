"""Committed snapshots (`tests/fixtures`), opened as planning opens them, and bytes of their streams."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.snapshot.reading.opening import open_snapshot

FIXTURES = Path(__file__).parent.parent / "fixtures"


@cache
def names() -> tuple[str, ...]:
    """Return the snapshots that can be read in place: their handles have no absolute paths."""
    described = sorted(FIXTURES.glob("*/expected.json"))
    return tuple(path.parent.name for path in described if json.loads(path.read_text())["directory_prefix"] is None)


@cache
def with_databases() -> tuple[str, ...]:
    """Return the snapshots with keyed state in RocksDB directories."""
    return tuple(name for name in names() if any(operator.databases for operator in opened(name).operators))


def directory(name: str) -> str:
    folder = FIXTURES / name
    return str(folder / json.loads((folder / "expected.json").read_text())["snapshot"])


@cache
def opened(name: str) -> Snapshot:
    return open_snapshot(directory(name), ids_and_labels=uids(name))


def uids(name: str) -> tuple[tuple[str, str], ...]:
    """Return the operator ids of the snapshot with their uids, as for `--uids`."""
    document = json.loads((FIXTURES / name / "expected.json").read_text())
    operator_ids = document["metadata"]["operators"]
    return tuple((operator_id, uid) for uid, operator_id in document["uids"].items() if operator_id in operator_ids)


def operator_of(name: str, label: str) -> Operator:
    return next(operator for operator in opened(name).operators if operator.label == label)


def content(snapshot: Snapshot, extent: Extent) -> bytes:
    file, start, length = extent
    return Path(snapshot.files[file][0]).read_bytes()[start : start + length]


class Keyed(NamedTuple):
    """A keyed stream of a committed snapshot; `where` names it in assertions."""

    where: str
    snapshot: Snapshot
    stream: KeyedStream

    def groups(self) -> Iterator[tuple[int, bytes]]:
        """Return the existing key groups with their content."""
        for key_group, extent in enumerate(self.stream.groups, self.stream.first_key_group):
            if extent is not None:
                yield key_group, content(self.snapshot, extent)


class Elements(NamedTuple):
    """A stream of managed operator state of a committed snapshot."""

    where: str
    snapshot: Snapshot
    stream: ElementStream


@cache
def keyed_streams() -> tuple[Keyed, ...]:
    return tuple(
        Keyed(f"{name} {operator.label} {stream.subtask}", opened(name), stream)
        for name in names()
        for operator in opened(name).operators
        for stream in operator.keyed
    )


@cache
def element_streams() -> tuple[Elements, ...]:
    return tuple(
        Elements(f"{name} {operator.label} {stream.subtask}", opened(name), stream)
        for name in names()
        for operator in opened(name).operators
        for stream in operator.element_streams
    )
