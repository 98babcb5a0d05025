"""Runs that are killed at one of their storage calls, and the files that they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.storage.locations import join
from rescale.storage.store import open_store
from support import snapshots, warm
from support.faults import Faults, Kind
from support.s3 import new_home

SNAPSHOT = "2-finished"
KILLED = -signal.SIGKILL


@dataclass(frozen=True)
class Case:
    """Runs of the same request, each into a new target below `home`; `shape` has the options besides parallelism."""

    home: str
    work: Path
    part_size: int
    shape: tuple[str, ...] = ()
    source: str = snapshots.directory(SNAPSHOT)

    def faults(self, kind: Kind = Kind.NONE, at: int = 1, where: str = "", *, writes_only: bool = True) -> Faults:
        return Faults(str(self.work / uuid.uuid4().hex), kind, at, where, writes_only)

    def target(self) -> str:
        return join(self.home, uuid.uuid4().hex)

    def run(self, target: str, faults: Faults, *more: str, parallelism: str = "3") -> int:
        arguments = ["run", self.source, "--target", target, *(("--parallelism", parallelism) if parallelism else ())]
        return warm.rescale([*arguments, *self.shape, *more], faults, self.part_size)

    def succeed(self, target: str, when: str = "undisturbed") -> Faults:
        """Run to the end, and return the log of the run's calls; `when` is for the message of a failure."""
        faults = self.faults()
        assert self.run(target, faults) == 0, f"{when}: {warm.output(faults)}"
        return faults

    def discard(self, target: str, faults: Faults) -> int:
        return warm.rescale(["discard", target], faults, self.part_size)

    def writes(self) -> list[str]:
        """Return the writes of a run without faults, up to the put of `_metadata`.

        Writes of a mark and of a report would follow.
        """
        calls = self.succeed(target := self.target()).calls()
        assert_right(target)
        return calls[: calls.index(f"put_if_absent {join(target, '_metadata')}") + 1]

    def calls(self) -> int:
        """Return the number of `writes`."""
        return len(self.writes())

    def calls_before_publication(self) -> int:
        """Return the number of writes before `_metadata`."""
        return self.calls() - 1


def case_on(place: str, request: pytest.FixtureRequest, folder: Path, shape: tuple[str, ...] = ()) -> Case:
    """Return a case on `local` disk with small parts, or in `s3`, where parts cannot be small."""
    work = folder / "work"
    work.mkdir()
    return Case(new_home(place, request, folder / "home"), work, 1000 if place == "local" else 1 << 24, shape)


def real_run(arguments: Sequence[str], faults: Faults, home: Path) -> int:
    """Run `rescale` as users do, in a separate session, so that a kill ends only this run."""
    script = "from unittest.mock import patch\nfrom rescale.cli.main import main\n" + (
        "with patch('rescale.planning.planner.PART_SIZE', 1000), "
        "patch('rescale.planning.streams.inline.INLINE_LIMIT', 0):\n"
        "    raise SystemExit(main())\n"
    )
    hook = home / "hook"
    hook.mkdir(exist_ok=True)
    environment = {**os.environ, **faults.environment(hook)}
    command = [sys.executable, "-c", script, *arguments, "--master", "local[1]"]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    return process.wait()


def is_published(target: str) -> bool:
    return open_store(target).stat(join(target, "_metadata")) is not None


def assert_right(target: str, source: str = snapshots.directory(SNAPSHOT)) -> None:
    certificate = validate_published(source, target, InProcessTasks())
    assert certificate.verdict == "complete"
    stored = json.loads(open_store(target).read_all(f"{target}.rescale/certificate.json", 1 << 20)[0])
    assert stored["candidate_sha256"] == certificate.candidate_sha256


def assert_right_or_unpublished(target: str, source: str = snapshots.directory(SNAPSHOT)) -> None:
    if is_published(target):
        assert_right(target, source)
