"""Jobs, snapshots and shapes drawn by a seed, rescaled in a random order of tasks.

A failing case found here should be added to the tables of cases, which were written by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from oracle.harness import Flink, Job
from oracle.key_types import FOLDED_KEYS, HASHED_KEYS
from support.pipeline import execute_without_spark, plan_rescale

SEEDS = range(7)
SCENARIOS = ("everything", "everything", "keyed", "keyed", "windows", "clicks", "sql", "cep", "splits", "churn")
KINDS = ("canonical", "native", "checkpoint")
OPTIONS: Sequence[Mapping[str, str]] = (
    {},
    {"state.backend.incremental": "true", "execution.checkpointing.incremental": "true"},
    {"state.backend.rocksdb.timer-service.factory": "HEAP"},
    {"state.backend.rocksdb.memory.partitioned-index-filters": "true"},
)
LARGEST_MAX_PARALLELISM = 2000
"""Largest max parallelism here. The tables of cases have larger ones, for which Flink needs a long time."""


@dataclass(frozen=True)
class DrawnCase:
    """A snapshot of `job`, of `kind`, rescaled to `shape`; `restored_job` restores it and takes one of `next_kind`."""

    job: Job
    kind: str
    restored_job: Job
    next_kind: str
    format: str = "keep"
    shape: Mapping[str, Sequence[str]] = field(default_factory=dict)


def draw_case(seed: int) -> DrawnCase:
    random = Random(seed)
    job = _draw_job(random)
    kind = random.choice(KINDS)
    if kind == "native" and "HEAP" in job.configuration.values():
        kind = "checkpoint"  # because Flink leaves timers on the heap out of native savepoints
    next_kind, is_native = random.choice(KINDS), kind != "canonical"
    if is_native and job.backend == "rocksdb" and random.random() < 0.3:
        return DrawnCase(job, kind, job, next_kind)
    parallelism = random.randint(1, 9)
    max_parallelism = job.max_parallelism
    if not (is_native and job.backend == "hashmap") and "raw_keyed" not in job.parameters and random.random() < 0.7:
        max_parallelism = _draw_max_parallelism(random, parallelism)
    elif max_parallelism is not None:
        parallelism = min(parallelism, max_parallelism)
    return DrawnCase(
        job,
        kind,
        job.with_(
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            exceptions={},
            backend="hashmap" if is_native and job.backend == "hashmap" else random.choice(("hashmap", "rocksdb")),
            configuration={},
        ),
        next_kind,
        "canonical" if is_native and job.backend == "rocksdb" else "keep",
        {"parallelism": [str(parallelism)], "max_parallelism": [str(max_parallelism)]},
    )


def _draw_job(random: Random) -> Job:
    scenario = random.choice(SCENARIOS)
    parallelism = random.randint(1, 6)
    max_parallelism = _draw_max_parallelism(random, max(parallelism, 10))
    parameters = {"seed": random.randrange(1000)}
    exceptions = {}
    if scenario == "everything":
        parameters["keys"] = random.choice((0, 1, 5, 40))
        parameters |= {switch: 1 for switch in ("lazy", "raw_keyed", "raw_operator") if random.random() < 0.3}
        exceptions = {name: random.randint(1, 7) for name in ("lists", "rules", "states") if random.random() < 0.3}
    elif scenario == "keyed":
        types = random.sample(HASHED_KEYS, 3) + (random.sample(FOLDED_KEYS, 1) if max_parallelism >= 64 else [])
        parameters |= dict.fromkeys(types, 1)
    elif scenario == "churn":
        parameters["keys"] = random.choice((1, 30, 200))
    backend = random.choice(("hashmap", "rocksdb"))
    return Job(
        scenario,
        parallelism,
        parameters,
        exceptions,
        max_parallelism,
        backend=backend,
        compression=random.random() < 0.3,
        configuration=random.choice(OPTIONS) if backend == "rocksdb" else {},
    )


def _draw_max_parallelism(random: Random, least: int) -> int:
    """Draw 300, a power of two, the largest max parallelism, or any up to these, but not below `least`."""
    upper = random.choice((300, 1 << random.randint(4, 10), LARGEST_MAX_PARALLELISM))
    return random.choice((max(least, upper), random.randint(least, max(least, upper))))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_flink_continues_from_a_random_rescaled_snapshot(flink_2: Flink, tmp_path: Path, seed: int) -> None:
    case = draw_case(seed)
    source = flink_2.snapshot(case.job, tmp_path / "source", case.kind)
    target = tmp_path / "target"
    plan = plan_rescale(str(source), str(target), format=case.format, **case.shape)
    execute_without_spark(plan, order=Random(seed))
    verdict = flink_2.restore(target, case.job, case.restored_job, per_subtask=True, next_kind=case.next_kind)
    assert verdict.ok, f"{case}: {verdict}"
