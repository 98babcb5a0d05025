"""A preparation, and a run behind it, that are killed at one of their storage calls: the same command goes on.

The life is a preparation, another one of a newer checkpoint with some other files, and the run. Each starts from what
undisturbed ones left before it.
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
from rescale.storage.locations import join
from support import warm
from support.checkpoints import Checkpoints, checkpoints_in
from support.faults import Faults, Kind
from support.resuming import KILLED, is_there
from support.slow import Share, in_shares, slow

FIXTURE = "2-rocksdb-incremental"
SHAPE = ("--parallelism", "4")


@dataclass(frozen=True)
class Stage:
    """A command; `before` is a copy of all files as they were."""

    options: tuple[str, ...]
    before: Path
    number: int
    calls: int


class Life:
    """The files of a job and a prepared target in `home`, put back to before a stage as often as is needed."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.home = work / "home"
        self.target = str(self.home / "target")
        self.job = checkpoints_in(FIXTURE, str(self.home / "job"), work / "scratch")
        self.stages = [
            self._lived("first", "--prepare"),
            self._lived("second", "--prepare", first=self._next_checkpoint),
            self._lived("run", first=self._last_checkpoint),
        ]

    def run(self, options: tuple[str, ...], faults: Faults) -> int:
        source = self.job.directory if options else self.job.newest
        return warm.rescale(["run", source, "--target", self.target, *SHAPE, *options], faults)

    def faults(self, kind: Kind = Kind.NONE, at: int = 1) -> Faults:
        return Faults(str(self.work / uuid.uuid4().hex), kind, at, writes_only=True)

    def back_to(self, stage: Stage) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(stage.before, self.home, symlinks=True)
        self.job = Checkpoints(self.job.directory, stage.number)

    def assert_right(self) -> None:
        """Flink finds a whole result, without a file that it does not know: `validate` refuses those."""
        assert validate_published(self.job.newest, self.target, InProcessTasks()).verdict == "complete"

    def _lived(self, name: str, *options: str, first: Callable[[], None] | None = None) -> Stage:
        if first is not None:
            first()
        before, faults = self.work / f"before-{name}", self.faults()
        shutil.copytree(self.home, before)
        assert self.run(options, faults) == 0, warm.output(faults)
        return Stage(options, before, self.job.number, len(faults.calls()))

    def _next_checkpoint(self) -> None:
        """Its shared files are elsewhere, so that all have other identities."""
        self._last_checkpoint()
        self.job.move_shared_to(join(self.job.directory, "elsewhere"))

    def _last_checkpoint(self) -> None:
        self.job.copy_newest(self.job.number + 1)
        self.job.delete_older(self.job.number)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> Life:
    life = Life(tmp_path_factory.mktemp("life"))
    life.assert_right()
    return life


def stop_at(life: Life, stage: Stage, at: int, kind: Kind) -> None:
    life.back_to(stage)
    faults = life.faults(kind, at)
    code = life.run(stage.options, faults)
    is_report = faults.calls()[at - 1].endswith("report.html")  # a run does without it
    assert code == (KILLED if kind is Kind.KILL else 1) or (is_report and code == 0), warm.output(faults)


stages = pytest.mark.parametrize(
    "number", [slow(0, id="first"), pytest.param(1, id="second"), pytest.param(2, id="run")]
)


@stages
@pytest.mark.parametrize("kind", [Kind.KILL, slow(Kind.ERROR)])
@in_shares
def test_the_same_command_goes_on(life: Life, number: int, kind: Kind, share: Share[int]) -> None:
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        stop_at(life, stage, at, kind)
        for options in dict.fromkeys([stage.options, ()]):
            again = life.faults()
            assert life.run(options, again) == 0, (at, warm.output(again))
        life.assert_right()


@stages
@in_shares
def test_a_run_goes_on_where_a_preparation_was_killed(life: Life, number: int, share: Share[int]) -> None:
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        stop_at(life, stage, at, Kind.KILL)
        again = life.faults()
        assert life.run((), again) == 0, (at, warm.output(again))
        life.assert_right()


@stages
@in_shares
def test_discard_removes_what_was_left(life: Life, number: int, share: Share[int]) -> None:
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        stop_at(life, stage, at, Kind.KILL)
        discarded = life.faults()
        code = warm.rescale(["discard", life.target], discarded)
        if code == 2:
            assert number == 2, warm.output(discarded)
            continue  # it was about to be published
        assert code == 0, warm.output(discarded)
        assert not is_there(life.target)
        for place in (Path(life.target), Path(f"{life.target}.rescale")):
            assert not place.exists() or not [path for path in place.rglob("*") if path.is_file()], at
