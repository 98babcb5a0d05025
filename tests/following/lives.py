"""Lives of commands that copy a job's checkpoints: stages, each of which can be repeated from the files before it."""

from __future__ import annotations

import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from support import warm
from support.checkpoints import Checkpoints, checkpoints_in
from support.faults import Faults, Kind
from support.resuming import KILLED

FIXTURE = "2-rocksdb-incremental"


@dataclass(frozen=True)
class Stage:
    """A command; `before` is a copy of all files before it, `number` the newest checkpoint."""

    options: tuple[str, ...]
    before: Path
    number: int
    calls: int


class Life(ABC):
    """The files of a job and a target in `home`, which can be restored to those before a stage."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.home = work / "home"
        self.target = str(self.home / "target")
        self.job = checkpoints_in(FIXTURE, str(self.home / "job"), work / "scratch")
        self.stages = self.lived()
        self.assert_right()

    @abstractmethod
    def lived(self) -> list[Stage]:
        """Run all stages without faults, and return them."""

    @abstractmethod
    def run(self, options: tuple[str, ...], faults: Faults) -> int:
        """Run the command and return its exit code."""

    def assert_right(self) -> None:
        """Check that the result is complete and has no other files, which `validate` refuses."""
        assert validate_published(self.job.newest, self.target, InProcessTasks()).verdict == "complete"

    def stage(self, name: str, *options: str, first: Callable[[], None] | None = None) -> Stage:
        """Run a stage, after `first` has changed the job."""
        if first is not None:
            first()
        before, faults = self.work / f"before-{name}", self.faults()
        shutil.copytree(self.home, before)
        assert self.run(options, faults) == 0, warm.output(faults)
        return Stage(options, before, self.job.number, len(faults.calls()))

    def faults(self, kind: Kind = Kind.NONE, at: int = 1) -> Faults:
        return Faults(str(self.work / uuid.uuid4().hex), kind, at, writes_only=True)

    def next_checkpoint(self) -> None:
        self.job.copy_newest(self.job.number + 1)
        self.job.delete_older(self.job.number)

    def stop_at(self, stage: Stage, at: int, kind: Kind) -> None:
        """Go back to before a stage and stop it at a storage call."""
        shutil.rmtree(self.home)
        shutil.copytree(stage.before, self.home, symlinks=True)
        self.job = Checkpoints(self.job.directory, stage.number)
        faults = self.faults(kind, at)
        code = self.run(stage.options, faults)
        is_report = faults.calls()[at - 1].endswith("report.html")  # a run does without it
        assert code == (KILLED if kind is Kind.KILL else 1) or (is_report and code == 0), warm.output(faults)

    def go_on(self, *commands: tuple[str, ...]) -> None:
        """Run the command with each of these options, and check the result."""
        for options in commands:
            again = self.faults()
            assert self.run(options, again) == 0, warm.output(again)
        self.assert_right()
