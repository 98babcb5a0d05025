"""A follower that is killed at one of its storage calls: the same command goes on, and the result is right.

The follower's commands make a base, a round, and the last round. Each command starts from the files that an undisturbed
follower has left.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from following.command_sequence import Command, CommandSequence
from rescale.runstate.follower.rounds import finished_round_checkpoints
from support import warm
from support.faults import Faults, Kind
from support.followers import assert_rounds_are_whole
from support.slow import Share, in_shares, slow

SHAPE = ("--parallelism", "3", "--max-parallelism", "1000")


class FollowerCommands(CommandSequence):
    def record_all(self) -> list[Command]:
        return [
            self.record("base", "--max-rounds", "0"),
            self.record("round", "--max-rounds", "1", change_job=self.next_checkpoint),
            self.record("last", "--finish", change_job=self.next_checkpoint),
        ]

    def run(self, options: tuple[str, ...], faults: Faults) -> int:
        shape = () if "--finish" in options else SHAPE
        return warm.rescale(["follow", self.job.directory, "--target", self.target, *shape, *options], faults)

    def assert_complete(self) -> None:
        super().assert_complete()
        names = {path.name for path in Path(f"{self.target}.rescale").iterdir()}
        assert not names & {"pins", "rounds", "follower.json"}

    def is_done(self, command: Command) -> bool:
        return "--finish" not in command.options and command.checkpoint_number in finished_round_checkpoints(
            self.target
        )


@pytest.fixture(scope="module")
def sequence(tmp_path_factory: pytest.TempPathFactory) -> FollowerCommands:
    return FollowerCommands(tmp_path_factory.mktemp("sequence"))


def stop_and_go_on(sequence: FollowerCommands, command: Command, at: int, kind: Kind) -> None:
    sequence.stop_at(command, at, kind)
    assert_rounds_are_whole(sequence.target)
    sequence.go_on(*([] if sequence.is_done(command) else [command.options]), ("--finish",))


each_command = pytest.mark.parametrize(
    "command_index", [slow(0, id="base"), pytest.param(1, id="round"), slow(2, id="last")]
)


@each_command
@in_shares
def test_killed_follower_resumes(sequence: FollowerCommands, command_index: int, share: Share[int]) -> None:
    command = sequence.commands[command_index]
    for at in share(range(1, command.write_count + 1)):
        stop_and_go_on(sequence, command, at, Kind.KILL)


@each_command
@in_shares
def test_follower_resumes_after_a_store_error(
    sequence: FollowerCommands, command_index: int, share: Share[int]
) -> None:
    """The error ends the follower; the same command starts it again."""
    command = sequence.commands[command_index]
    for at in share(range(1, command.write_count + 1)):
        stop_and_go_on(sequence, command, at, Kind.ERROR)
