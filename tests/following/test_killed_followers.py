"""A follower that is killed at one of its storage calls: the same command goes on, and the result is right.

Its life is a base, a round, and the last round. Each starts from what an undisturbed follower left before it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from following.lives import Life, Stage
from rescale.runstate.follower.rounds import finished_rounds
from support import warm
from support.faults import Faults, Kind
from support.followers import assert_rounds_are_whole
from support.slow import Share, in_shares, slow

SHAPE = ("--parallelism", "3", "--max-parallelism", "1000")


class FollowersLife(Life):
    def lived(self) -> list[Stage]:
        return [
            self.stage("base", "--max-rounds", "0"),
            self.stage("round", "--max-rounds", "1", first=self.next_checkpoint),
            self.stage("last", "--finish", first=self.next_checkpoint),
        ]

    def run(self, options: tuple[str, ...], faults: Faults) -> int:
        shape = () if "--finish" in options else SHAPE
        return warm.rescale(["follow", self.job.directory, "--target", self.target, *shape, *options], faults)

    def assert_right(self) -> None:
        super().assert_right()
        names = {path.name for path in Path(f"{self.target}.rescale").iterdir()}
        assert not names & {"pins", "rounds", "follower.json"}

    def is_done(self, stage: Stage) -> bool:
        return "--finish" not in stage.options and stage.number in finished_rounds(self.target)


@pytest.fixture(scope="module")
def life(tmp_path_factory: pytest.TempPathFactory) -> FollowersLife:
    return FollowersLife(tmp_path_factory.mktemp("life"))


def stop_and_go_on(life: FollowersLife, stage: Stage, at: int, kind: Kind) -> None:
    life.stop_at(stage, at, kind)
    assert_rounds_are_whole(life.target)
    life.go_on(*([] if life.is_done(stage) else [stage.options]), ("--finish",))


stages = pytest.mark.parametrize("number", [slow(0, id="base"), pytest.param(1, id="round"), slow(2, id="last")])


@stages
@in_shares
def test_killed_follower_resumes(life: FollowersLife, number: int, share: Share[int]) -> None:
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        stop_and_go_on(life, stage, at, Kind.KILL)


@stages
@in_shares
def test_follower_resumes_after_a_store_error(life: FollowersLife, number: int, share: Share[int]) -> None:
    """The error ends the follower; the same command starts it again."""
    stage = life.stages[number]
    for at in share(range(1, stage.calls + 1)):
        stop_and_go_on(life, stage, at, Kind.ERROR)
