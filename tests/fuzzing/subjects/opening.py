"""Snapshots with another `_metadata`: each is planned or refused, and no file outside of its directory is opened."""

from __future__ import annotations

import shutil
import sys
import tempfile
from atexit import register
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from fuzzing.subject import Subject
from rescale.plan.plan import plan_from_json, plan_to_json
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError, SnapshotError, UnsupportedError
from support.edited import relocated
from support.pipeline import plan_rescale

_SOURCES = ("2-clicks", "1.20-raw", "2-rocksdb-native", "1.20-rocksdb-incremental", "2-source")


class _Watch:
    """Record of the files that are opened while `is_active` is true."""

    def __init__(self) -> None:
        self.is_active = False
        self.opened_paths: list[str] = []
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_active and event == "open" and isinstance(arguments[0], str):
            self.opened_paths.append(arguments[0])


@cache
def _watch() -> _Watch:
    return _Watch()


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="rescale-fuzzing-"))
    register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _directories() -> list[Path]:
    return [relocated(name, _folder() / f"{source_index}" / "job") for source_index, name in enumerate(_SOURCES)]


@cache
def _original_seeds() -> list[bytes]:
    """Return the seeds as they were at the first call, before inputs replaced the files."""
    return [
        bytes((source_index,)) + (directory / "_metadata").read_bytes()
        for source_index, directory in enumerate(_directories())
    ]


def _seeds() -> Iterator[bytes]:
    yield from _original_seeds()


def _look(data: bytes) -> None:
    source_index = data[0] % len(_original_seeds()) if data else 0
    directory, watch = _directories()[source_index], _watch()
    (directory / "_metadata").write_bytes(data[1:])
    job_folder = _folder() / f"{source_index}" / "job"
    watch.opened_paths.clear()
    watch.is_active = True
    try:
        open_snapshot(str(directory))
        plan = plan_rescale(str(directory), f"{job_folder.parent}/target", ["3"])
    finally:
        watch.is_active = False
        assert not (
            outside_paths := [path for path in watch.opened_paths if _is_state(path) and not _is_in(path, job_folder)]
        ), outside_paths
    assert plan_from_json(plan_to_json(plan), "plan") == plan


def _is_in(path: str, job_folder: Path) -> bool:
    """Return whether `path` lies in the job's folder, or is the parent of the target."""
    return Path(path).resolve().is_relative_to(job_folder) or Path(path) == job_folder.parent


def _is_state(path: str) -> bool:
    """Return whether `path` may hold state: it is not a late import, and no file of the system."""
    folders = ["/proc", "/sys", "/usr", sys.prefix, sys.base_prefix, str(Path(__file__).parents[3]), *sys.path]
    return not path.startswith(tuple(filter(None, folders)))


SUBJECT = Subject(_seeds, _look, (SnapshotError, UnsupportedError, RequestError))
