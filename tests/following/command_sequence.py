"""Sequences of commands on a job's checkpoints. Each command can be repeated from the files before it."""

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
class Command:
    """A command, with a copy of the files before it.

    `checkpoint_number` is that of the newest checkpoint, and `write_count` counts the storage calls that write.
    """

    options: tuple[str, ...]
    files_before: Path
    checkpoint_number: int
    write_count: int


class CommandSequence(ABC):
    """The files of a job and a target in `home`, which can be restored to those before a command."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.home = work / "home"
        self.target = str(self.home / "target")
        self.job = checkpoints_in(FIXTURE, str(self.home / "job"), work / "scratch")
        self.commands = self.record_all()
        self.assert_complete()

    @abstractmethod
    def record_all(self) -> list[Command]:
        """Run all commands without faults, and return them."""

    @abstractmethod
    def run(self, options: tuple[str, ...], faults: Faults) -> int:
        """Run the command and return its exit code."""

    def assert_complete(self) -> None:
        """Check that the result is complete and has no other files, which `validate` refuses."""
        assert validate_published(self.job.newest, self.target, InProcessTasks()).verdict == "complete"

    def record(self, name: str, *options: str, change_job: Callable[[], None] | None = None) -> Command:
        """Run a command, after `change_job` has changed the job, and return it."""
        if change_job is not None:
            change_job()
        files_before, faults = self.work / f"before-{name}", self.faults()
        shutil.copytree(self.home, files_before)
        assert self.run(options, faults) == 0, warm.output(faults)
        return Command(options, files_before, self.job.number, len(faults.calls()))

    def faults(self, kind: Kind = Kind.NONE, at: int = 1) -> Faults:
        return Faults(str(self.work / uuid.uuid4().hex), kind, at, writes_only=True)

    def next_checkpoint(self) -> None:
        self.job.copy_newest(self.job.number + 1)
        self.job.delete_older(self.job.number)

    def stop_at(self, command: Command, at: int, kind: Kind) -> None:
        """Restore the files before a command, and stop the command at this write."""
        shutil.rmtree(self.home)
        shutil.copytree(command.files_before, self.home, symlinks=True)
        self.job = Checkpoints(self.job.directory, command.checkpoint_number)
        faults = self.faults(kind, at)
        code = self.run(command.options, faults)
        is_report = faults.calls()[at - 1].endswith("report.html")  # a run succeeds without its report
        assert code == (KILLED if kind is Kind.KILL else 1) or (is_report and code == 0), warm.output(faults)

    def go_on(self, *option_sets: tuple[str, ...]) -> None:
        """Run the command with each of these options in turn, and check the result."""
        for options in option_sets:
            faults = self.faults()
            assert self.run(options, faults) == 0, warm.output(faults)
        self.assert_complete()
