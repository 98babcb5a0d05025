"""A follower that is killed at one of its storage calls: the same command goes on, and the result is right.

Its life is a base, a round, and the last round. Each starts from what an undisturbed follower left before it.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.runstate.follower.rounds import finished_rounds
from support import warm
from support.checkpoints import Checkpoints, checkpoints_in
from support.faults import Faults, Kind
from support.resuming import KILLED
from support.slow import Share, in_shares, slow

FIXTURE = "2-rocksdb-incremental"
SHAPE = ("--parallelism", "3", "--max-parallelism", "1000")


@dataclass(frozen=True)
class Stage:
    """A command of the follower's life; `before` is a copy of all files as they were."""

    options: tuple[str, ...]
    before: Path
    number: int
    calls: int


class Life:
    """The files of a job and its follower in `home`, put back to before a stage as often as is needed."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.home = work / "home"
        self.target = str(self.home / "target")
        self.job = checkpoints_in(FIXTURE, str(self.home / "job"), work / "scratch")
        self.stages = [
            self._lived("base", "--max-rounds", "0"),
            self._lived("round", "--max-rounds", "1", first=self._next_checkpoint),
            self._lived("last", "--finish", first=self._next_checkpoint),
        ]

    def run(self, options: tuple[str, ...], faults: Faults) -> int:
        shape = () if "--finish" in options else SHAPE
        return warm.rescale(["follow", self.job.directory, "--target", self.target, *shape, *options], faults)

    def faults(self, kind: Kind = Kind.NONE, at: int = 1) -> Faults:
        return Faults(str(self.work / uuid.uuid4().hex), kind, at, writes_only=True)

    def back_to(self, stage: Stage) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(stage.before, self.home, symlinks=True)
        self.job = Checkpoints(self.job.directory, stage.number)

    def is_done(self, stage: Stage) -> bool:
        return "--finish" not in stage.options and stage.number in finished_rounds(self.target)

    def assert_right(self) -> None:
        certificate = validate_published(self.job.newest, self.target, InProcessTasks())
        assert certificate.verdict == "complete"
        names = {path.name for path in Path(f"{self.target}.rescale").iterdir()}
        assert not names & {"pins", "rounds", "follower.json"}

    def _lived(self, name: str, *options: str, first: Callable[[], None] | None = None) -> Stage:
        if first is not None:
            first()
        before, faults = self.work / f"before-{name}", self.faults()
        shutil.copytree(self.home, before)
        assert self.run(options, faults) == 0, warm.output(faults)
        return Stage(options, before, self.job.number, len(faults.calls()))

    def _next_checkpoint(self) -> None:
        self.job.copy_newest(self.job.number + 1)
        self.job.delete_older(self.job.number)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    life = Life(tmp_path_factory.mktemp("life"))
    life.assert_right()
    return life


def kill_and_go_on(life: Life, stage: Stage, at: int, kind: Kind = Kind.KILL) -> None:
    life.back_to(stage)
    faults = life.faults(kind, at)
    code = life.run(stage.options, faults)
    is_report = faults.calls()[at - 1].endswith("report.html")  # a run does without it
    assert code == (KILLED if kind is Kind.KILL else 1) or (is_report and code == 0), warm.output(faults)
    for options in [*([] if life.is_done(stage) else [stage.options]), ("--finish",)]:
        again = life.faults()
        assert life.run(options, again) == 0, (faults.calls()[-1], warm.output(again))
    life.assert_right()


stages = pytest.mark.parametrize("number", [slow(0, id="base"), pytest.param(1, id="round"), slow(2, id="last")])


@stages
@in_shares
def test_killed_follower_resumes(life: Life, number: int, share: Share[int]) -> None:
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        kill_and_go_on(life, stage, at)


@stages
@in_shares
def test_follower_resumes_after_a_store_error(life: Life, number: int, share: Share[int]) -> None:
    """The error ends the follower; the same command starts it again."""
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        kill_and_go_on(life, stage, at, Kind.ERROR)
