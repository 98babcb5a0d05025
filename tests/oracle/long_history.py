"""Long history of a job, drawn from a seed: in each round it is rescaled, and real Flink runs it up to a new snapshot.

`PYTHONPATH=tests python -m oracle.long_history --seed N --rounds 30`. Shapes, formats, backends, kinds of snapshot and
release lines are drawn at random. The release line only changes to a newer one. The expected state of the job after
each round is computed in Java from the seed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from oracle.distribution import LINES
from oracle.harness import Flink, Job
from support.pipeline import execute_without_spark, plan_rescale

_FORMATS = ("canonical", "rocksdb", "keep")
_MAXIMA = (8, 10, 64, 128, 129, 256, 1000)
_INCREMENTAL = {"state.backend.incremental": "true", "execution.checkpointing.incremental": "true"}
_ON_HEAP = {"state.backend.rocksdb.timer-service.factory": "HEAP"}
_COMMANDS = {"churn": ("wave",), "everything": ()}
"""Commands to a restored job before its next snapshot. In the scenario `everything` the state never changes."""

FlinkOfLine = Callable[[str], Flink]
"""Function that returns the running Flink of a release line, which starts when it is first needed."""


@dataclass(frozen=True)
class Round:
    """A snapshot is rescaled into `format`; `job` runs on `line` from the result, up to a snapshot of `kind`."""

    format: str
    files: str
    job: Job
    line: str
    claim_mode: str
    kind: str

    def __str__(self) -> str:
        job = self.job
        shape = f"{job.parallelism} of {job.max_parallelism}"
        options = ", ".join(f"{name.rpartition('.')[2]}={value}" for name, value in job.configuration.items())
        return (
            f"{self.format} ({self.files}) to {shape}; Flink {self.line} on {job.backend} {options} {self.claim_mode}, "
            f"then {self.kind}"
        )


def first_job(seed: int) -> tuple[Job, str, str]:
    """Return the job that a history begins with, the line that it runs on, and the kind of its first snapshot."""
    random = Random(seed)
    scenario = random.choice(("churn", "churn", "everything"))
    job = Job(scenario, random.randint(1, 5), {"seed": seed, "keys": random.choice((5, 30))}, max_parallelism=128)
    backend = random.choice(("hashmap", "rocksdb"))
    return job.with_(backend=backend), random.choice(("1.20", "1.20", "2")), _draw_kind(random, {})


def rounds(seed: int, count: int) -> Iterator[Round]:
    random = Random(~seed)
    job, line, kind = first_job(seed)
    upgrade_at = random.randrange(count) if line == "1.20" else count
    for round_number in range(count):
        line = "2" if round_number >= upgrade_at else line
        is_native = kind != "canonical"
        result_format = random.choice(_FORMATS if is_native else _FORMATS[:2])
        state_format = (job.backend if is_native else "canonical") if result_format == "keep" else result_format
        max_parallelism = random.choice((job.max_parallelism or 128, *_MAXIMA))
        parallelism = random.randint(1, min(7, max_parallelism))
        may_refer = state_format == "rocksdb" and is_native and job.backend == "rocksdb"
        files = "refer" if may_refer and random.random() < 0.3 else "copy"
        backend = random.choice(("hashmap", "rocksdb")) if state_format == "canonical" else state_format
        options = _draw_options(random, state_format, backend, kept_on_heap=is_native and job.configuration == _ON_HEAP)
        claim_mode = "CLAIM" if files == "copy" and random.random() < 0.3 else "NO_CLAIM"
        job = job.with_(
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            backend=backend,
            configuration=options,
            exceptions={},
        )
        kind = _draw_kind(random, options)
        yield Round(result_format, files, job, line, claim_mode, kind)


def _draw_options(random: Random, state_format: str, backend: str, *, kept_on_heap: bool) -> Mapping[str, str]:
    """Draw options of the restored job. Flink moves timers between heap and RocksDB only from canonical state."""
    if backend != "rocksdb":
        return {}
    if state_format == "rocksdb":
        return _ON_HEAP if kept_on_heap else random.choice(({}, _INCREMENTAL))
    return random.choice(({}, _INCREMENTAL, _ON_HEAP))


def _draw_kind(random: Random, options: Mapping[str, str]) -> str:
    """Draw a kind of snapshot; in a native savepoint Flink leaves out timers on the heap beside RocksDB."""
    return random.choice(("canonical", "checkpoint") if options == _ON_HEAP else ("canonical", "native", "checkpoint"))


def play(seed: int, count: int, flink: FlinkOfLine, folder: Path, say: Callable[[str], None]) -> int:
    """Play a history of `count` rounds below `folder`; return the number of comparisons. A difference is an error."""
    initial_job, line, kind = first_job(seed)
    say(
        f"seed {seed}: {initial_job.scenario}, {initial_job.parallelism} of {initial_job.max_parallelism}; "
        f"Flink {line}, {kind}"
    )
    path = flink(line).snapshot(initial_job, folder / "0", kind)
    waves_run = comparison_count = 0
    for round_number, history_round in enumerate(rounds(seed, count), 1):
        started_at = time.monotonic()
        target = folder / f"{round_number}-rescaled" / "target"
        plan = plan_rescale(
            str(path),
            str(target),
            [str(history_round.job.parallelism)],
            [str(folder)],
            max_parallelism=[str(history_round.job.max_parallelism)],
            format=history_round.format,
            files=history_round.files,
        )
        execute_without_spark(plan, order=Random(seed + round_number))
        verdict = flink(history_round.line).restore(target, _job_after(initial_job, waves_run), history_round.job)
        difference_count = verdict.number_of_differences  # `verdict.ok` is false if there is nothing to compare
        assert not difference_count, f"seed {seed}, round {round_number}: {history_round}: {verdict}"
        comparison_count += sum(verdict.comparisons.values())
        commands = _COMMANDS[initial_job.scenario]
        path = flink(history_round.line).snapshots(
            replace(history_round.job, parameters={**initial_job.parameters, "lived": waves_run}),
            folder / f"{round_number}",
            *commands,
            history_round.kind,
            restored=target,
            claim_mode=history_round.claim_mode,
        )[-1]
        waves_run += len(commands)
        say(f"round {round_number}: {history_round}; {time.monotonic() - started_at:.0f} s")
    assert comparison_count, f"seed {seed}: no round had anything to compare"
    return comparison_count


def _job_after(job: Job, waves_run: int) -> Job:
    return job.with_(parameters={**job.parameters, "waves": waves_run})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oracle.long_history", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first history")
    parser.add_argument(
        "--histories", type=int, default=1, metavar="N", help="how many histories are played, one after the other"
    )
    parser.add_argument("--rounds", type=int, default=30)
    arguments = parser.parse_args()
    flink_by_line: dict[str, Flink] = {}
    comparison_count = 0
    try:
        for seed in range(arguments.seed, arguments.seed + arguments.histories):
            with tempfile.TemporaryDirectory(prefix="rescale-history-") as folder:
                comparison_count += play(
                    seed,
                    arguments.rounds,
                    lambda line: flink_by_line.setdefault(line, flink_by_line.get(line) or Flink(LINES[line])),
                    Path(folder),
                    lambda text: print(text, flush=True),
                )
    finally:
        for flink in flink_by_line.values():
            flink.close()
    round_count = arguments.histories * arguments.rounds
    print(f"{round_count} rounds, {comparison_count} things compared, no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
