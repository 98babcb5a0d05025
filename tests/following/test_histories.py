"""Histories of a follower, drawn from a seed: the job changes, completes and deletes checkpoints, and calls fail.

Followers are killed, or their store answers with errors; somebody discards what they left; the job is restored in
another way. Once the faults have ended, the same commands publish a result that equals the last checkpoint, and nothing
else stays. Files of the job are never touched, and no round lacks a file to which it refers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.metadata.checkpoint_metadata import Metadata
from rescale.runstate.follower.rounds import finished_round_checkpoints, followed_job
from rescale.snapshot.reading.opening import open_snapshot
from support import edited, warm
from support.changing_job import ChangingJob
from support.diffing import diff
from support.faults import Faults, Kind
from support.followers import assert_rounds_are_whole
from support.resuming import KILLED
from support.slow import slow_but

SHAPE = ("--parallelism", "3", "--max-parallelism", "1000")
FAULTS = (Kind.NONE, Kind.KILL, Kind.ERROR, Kind.LOST_ANSWER)
MOST_WRITES = 120
"""Number of writes of the longest command. A shorter command may end before its fault."""


class History:
    """A job and its follower in `home`; `seed` decides what happens."""

    def __init__(self, home: Path, seed: int) -> None:
        self.rng = Random(seed)
        self.home, self.target = home, str(home / "target")
        (home / "databases").mkdir()
        self.job = ChangingJob(str(home / "job"), home / "databases", self.rng)
        self.command_logs: list[str] = []

    def play(self) -> None:
        for _ in range(self.rng.randint(4, 8)):
            for _ in range(self.rng.choice([0, 1, 1, 1, 3])):
                self.job.complete_checkpoint()
            match self.rng.randrange(12):
                case 0:
                    self.run(["discard", self.target], Kind.NONE)
                case 1:
                    self.job.checkpoints.rewrite(self.with_other_backends)
                case 2 | 3:
                    self.job.start_again()
                case 4 if followed_job(self.target) is not None:
                    self.finish(self.rng.choice((Kind.KILL, Kind.ERROR)))
                case _:
                    self.follow(self.rng.choice(FAULTS))
            if self.is_published:
                break
        while not self.is_published and self.follow(Kind.NONE) != 0:
            assert len(self.command_logs) < 40, "the follower does not make a base or a round"
        assert self.finish(Kind.NONE) == 0  # once more, if an earlier `finish` has published and then failed

    def with_other_backends(self, metadata: Metadata) -> Metadata:
        """Return the metadata with new ids of the state backends, as a job writes it after a restore."""
        return edited.with_databases(metadata, lambda handle: replace(handle, backend_id=str(uuid.uuid4())))

    @property
    def is_published(self) -> bool:
        return Path(self.target, "_metadata").exists()

    def follow(self, kind: Kind) -> int:
        """Make a base if there is none, else a round if there is a checkpoint for it."""
        round_checkpoints = finished_round_checkpoints(self.target)
        rounds = 1 if round_checkpoints and round_checkpoints[-1] < self.job.checkpoints.number else 0
        return self.run(["follow", self.job.checkpoints.directory, *SHAPE, "--max-rounds", str(rounds)], kind)

    def finish(self, kind: Kind) -> int:
        return self.run(["follow", self.job.checkpoints.directory, "--finish"], kind)

    def run(self, arguments: list[str], kind: Kind) -> int:
        """Run a command with a fault at one of its writes; check that the job's files stay as they are."""
        files_of_job = content_by_path(self.home / "job")
        faults = Faults(str(self.home / uuid.uuid4().hex), kind, self.rng.randint(1, MOST_WRITES), writes_only=True)
        target_option = [] if arguments[0] == "discard" else ["--target", self.target]
        code = warm.rescale([*arguments, *target_option], faults)
        self.command_logs.append(
            f"{arguments[0]} {arguments[-1]}, {kind} at {faults.at}: {code}\n{warm.output(faults)}"
        )
        assert code in {Kind.NONE: (0, 2), Kind.KILL: (0, KILLED)}.get(kind, (0, 1)), self.command_logs[-1]
        assert content_by_path(self.home / "job") == files_of_job
        assert_rounds_are_whole(self.target)
        return code


def content_by_path(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


@pytest.fixture
def history(tmp_path: Path, seed: int) -> Iterator[History]:
    history = History(tmp_path, seed)
    yield history
    history.job.close()


@pytest.mark.parametrize("seed", slow_but(lambda seed: seed < 2, range(30)))
def test_result_of_a_follower_equals_the_last_checkpoint_after_any_fault(history: History) -> None:
    history.play()
    newest, command_logs = history.job.checkpoints.newest, "\n".join(history.command_logs)
    assert validate_published(newest, history.target, InProcessTasks()).verdict == "complete", command_logs
    assert diff(open_snapshot(newest), open_snapshot(history.target)).equal, command_logs
    remaining = {path.name for path in Path(f"{history.target}.rescale").iterdir()}
    assert not remaining & {"pins", "rounds", "follower.json"}, command_logs
