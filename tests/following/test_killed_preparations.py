"""A preparation, and a run behind it, that are killed at one of their storage calls: the same command goes on.

The life is a preparation, another one of a newer checkpoint with some other files, and the run. Each starts from what
undisturbed ones left before it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from following.lives import Life, Stage
from rescale.storage.locations import join
from support import warm
from support.faults import Faults, Kind
from support.resuming import is_published
from support.slow import Share, in_shares, slow


class PreparedLife(Life):
    def lived(self) -> list[Stage]:
        return [
            self.stage("first", "--prepare"),
            self.stage("second", "--prepare", first=self._checkpoint_elsewhere),
            self.stage("run", first=self.next_checkpoint),
        ]

    def run(self, options: tuple[str, ...], faults: Faults) -> int:
        source = self.job.directory if options else self.job.newest
        return warm.rescale(["run", source, "--target", self.target, "--parallelism", "4", *options], faults)

    def _checkpoint_elsewhere(self) -> None:
        """Make a checkpoint whose shared files lie elsewhere, so that all have other identities."""
        self.next_checkpoint()
        self.job.move_shared_to(join(self.job.directory, "elsewhere"))


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> PreparedLife:
    return PreparedLife(tmp_path_factory.mktemp("life"))


stages = pytest.mark.parametrize(
    "number", [slow(0, id="first"), pytest.param(1, id="second"), pytest.param(2, id="run")]
)


@stages
@pytest.mark.parametrize("kind", [Kind.KILL, slow(Kind.ERROR)])
@in_shares
def test_the_same_command_goes_on(life: PreparedLife, number: int, kind: Kind, share: Share[int]) -> None:
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        life.stop_at(stage, at, kind)
        life.go_on(*dict.fromkeys([stage.options, ()]))


@stages
@in_shares
def test_a_run_goes_on_where_a_preparation_was_killed(life: PreparedLife, number: int, share: Share[int]) -> None:
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        life.stop_at(stage, at, Kind.KILL)
        life.go_on(())


@stages
@in_shares
def test_discard_removes_what_was_left(life: PreparedLife, number: int, share: Share[int]) -> None:
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        life.stop_at(stage, at, Kind.KILL)
        discarded = life.faults()
        code = warm.rescale(["discard", life.target], discarded)
        if code == 2:
            assert number == 2, warm.output(discarded)
            continue  # it was about to be published
        assert code == 0, warm.output(discarded)
        assert not is_published(life.target)
        for place in (Path(life.target), Path(f"{life.target}.rescale")):
            assert not place.exists() or not [path for path in place.rglob("*") if path.is_file()], at
