"""A preparation or the run after it is killed at a storage call, and the same command goes on.

The commands are two preparations and the run. Each command starts from the files that undisturbed commands have left.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from following.command_sequence import Command, CommandSequence
from rescale.storage.locations import join
from support import warm
from support.faults import Faults, Kind
from support.resuming import is_published
from support.slow import Share, in_shares, slow


class PreparationCommands(CommandSequence):
    def record_all(self) -> list[Command]:
        return [
            self.record("first", "--prepare"),
            self.record("second", "--prepare", change_job=self._checkpoint_elsewhere),
            self.record("run", change_job=self.next_checkpoint),
        ]

    def run(self, options: tuple[str, ...], faults: Faults) -> int:
        source = self.job.directory if options else self.job.newest
        return warm.rescale(["run", source, "--target", self.target, "--parallelism", "4", *options], faults)

    def _checkpoint_elsewhere(self) -> None:
        """Make a checkpoint whose shared files lie in another directory, so that all of them count as other files."""
        self.next_checkpoint()
        self.job.move_shared_to(join(self.job.directory, "elsewhere"))


@pytest.fixture(scope="module")
def sequence(tmp_path_factory: pytest.TempPathFactory) -> PreparationCommands:
    return PreparationCommands(tmp_path_factory.mktemp("sequence"))


each_command = pytest.mark.parametrize(
    "command_index", [slow(0, id="first"), pytest.param(1, id="second"), pytest.param(2, id="run")]
)


@each_command
@pytest.mark.parametrize("kind", [Kind.KILL, slow(Kind.ERROR)])
@in_shares
def test_stopped_command_goes_on_when_it_is_repeated(
    sequence: PreparationCommands, command_index: int, kind: Kind, share: Share[int]
) -> None:
    command = sequence.commands[command_index]
    for at in share(range(1, command.write_count + 1)):
        sequence.stop_at(command, at, kind)
        sequence.go_on(*dict.fromkeys([command.options, ()]))


@each_command
@in_shares
def test_a_run_goes_on_where_a_preparation_was_killed(
    sequence: PreparationCommands, command_index: int, share: Share[int]
) -> None:
    command = sequence.commands[command_index]
    for at in share(range(1, command.write_count + 1)):
        sequence.stop_at(command, at, Kind.KILL)
        sequence.go_on(())


@each_command
@in_shares
def test_discard_removes_what_a_killed_command_left(
    sequence: PreparationCommands, command_index: int, share: Share[int]
) -> None:
    command = sequence.commands[command_index]
    for at in share(range(1, command.write_count + 1)):
        sequence.stop_at(command, at, Kind.KILL)
        discard_faults = sequence.faults()
        code = warm.rescale(["discard", sequence.target], discard_faults)
        if code == 2:
            assert command_index == 2, warm.output(discard_faults)
            continue  # the result was about to be published
        assert code == 0, warm.output(discard_faults)
        assert not is_published(sequence.target)
        for place in (Path(sequence.target), Path(f"{sequence.target}.rescale")):
            assert not place.exists() or not [path for path in place.rglob("*") if path.is_file()], at
