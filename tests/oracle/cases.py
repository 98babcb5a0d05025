"""Table of cases for both release lines: a snapshot, the rescale, and the restore of the result.

The dimensions are parallelisms, max parallelism, kind of snapshot, keyed states, operator state, graph and next action.
Every value of each dimension occurs, and most pairs of values that could affect each other, but not all combinations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from oracle.harness import Job


@dataclass(frozen=True)
class Case:
    """Snapshot of `job`, rescaled to parallelism `after`.

    `exceptions_after` gives single operators another parallelism, by name. With `max_after`, all operators get that max
    parallelism, except those in `max_exceptions_after`; the restored job sets the same. Flink restores the result on
    backend `onto`, at `restored_parallelism` if that is set. With `second_after`, the result is first rescaled again,
    to that parallelism and to max parallelism `second_max_after`. With `claim`, Flink owns the result and must delete
    it. With `refused`, there must be no result, and the error must match this pattern. With `label`, the name of the
    case has this text instead of the job's parameters. Quick cases run as quick tests.
    """

    job: Job
    after: int
    kind: str = "canonical"
    onto: str = "hashmap"
    exceptions_after: Mapping[str, int] = field(default_factory=dict)
    max_after: int | None = None
    max_exceptions_after: Mapping[str, int] = field(default_factory=dict)
    restored_parallelism: int | None = None
    second_after: int | None = None
    second_max_after: int | None = None
    claim: bool = False
    refused: str | None = None
    label: str = ""
    quick: bool = False

    @property
    def name(self) -> str:
        job = self.job
        parameters = [self.label] if self.label else sorted(job.parameters)
        parts = [job.scenario, *parameters, f"{job.parallelism}to{self.after}"]
        parts += [f"{operator}={number}" for operator, number in self.exceptions_after.items()]
        parts += [f"then{self.second_after}"] if self.second_after else []
        parts += [f"restored{self.restored_parallelism}"] if self.restored_parallelism else []
        maxima = [job.max_parallelism, *(maximum for maximum in (self.max_after, self.second_max_after) if maximum)]
        parts += ["max" + "to".join(map(str, maxima))]
        parts += [f"max {operator}={number}" for operator, number in self.max_exceptions_after.items()]
        parts += [job.backend, self.kind]
        parts += [option for option in ("compression",) if job.compression] + [
            option for option in ("claim",) if self.claim
        ]
        return "-".join(parts)

    @property
    def shape(self) -> dict[str, list[str]]:
        """The arguments of the first rescale for the new parallelism and max parallelism."""
        return {
            "parallelism": _shape_option(self.after, self.exceptions_after),
            "max_parallelism": _shape_option(self.max_after, self.max_exceptions_after),
        }

    @property
    def second_shape(self) -> dict[str, list[str]]:
        return {
            "parallelism": _shape_option(self.second_after),
            "max_parallelism": _shape_option(self.second_max_after),
        }

    @property
    def restored_job(self) -> Job:
        """The job as which Flink restores the result."""
        exceptions = {} if self.second_after or self.restored_parallelism else self.exceptions_after
        return self.job.with_(
            parallelism=self.restored_parallelism or self.second_after or self.after,
            exceptions=exceptions,
            max_parallelism=self.second_max_after or self.max_after or self.job.max_parallelism,
            max_exceptions=self.max_exceptions_after,
            backend=self.onto,
        )

    @property
    def is_redistributed_once(self) -> bool:
        """Whether SPLIT elements were redistributed once, so that each must lie where Flink puts it."""
        return not self.second_after and not self.restored_parallelism


def _shape_option(of_all: int | None, exceptions: Mapping[str, int] | None = None) -> list[str]:
    single_operators = [f"{operator}={number}" for operator, number in (exceptions or {}).items()]
    return single_operators if of_all is None else [str(of_all), *single_operators]


def everything(parallelism: int, max_parallelism: int | None = 128, /, **parameters: int) -> Job:
    return Job("everything", parallelism, {"seed": 11 + parallelism, **parameters}, max_parallelism=max_parallelism)


def graph(scenario: str, parallelism: int, **parameters: int) -> Job:
    return Job(scenario, parallelism, {"seed": 5, **parameters}, max_parallelism=128)


ROCKSDB = {"backend": "rocksdb"}
COMPRESSED = {"compression": True}

CASES = (
    # Parallelism, with max parallelism and kind of snapshot.
    Case(everything(4), 1),
    Case(everything(4, 10), 3, "native", quick=True),
    Case(everything(4, 129).with_(**ROCKSDB), 6, onto="rocksdb"),
    Case(everything(4, 1000).with_(**COMPRESSED), 7, "checkpoint"),
    Case(everything(1, None), 5),
    Case(everything(1, 32768).with_(**ROCKSDB), 5),
    Case(everything(3, 4096, keys=30), 2, "native"),
    Case(everything(3, None).with_(**ROCKSDB, **COMPRESSED), 2, onto="rocksdb"),
    Case(everything(7, keys=60), 16, onto="rocksdb"),
    Case(everything(7, 1000, keys=60).with_(**COMPRESSED), 16, "native"),
    Case(everything(4, 129).with_(**COMPRESSED), 3, "native"),
    Case(everything(4, 10).with_(**ROCKSDB), 1, onto="rocksdb"),
    Case(everything(3, 1000), 2, "checkpoint", onto="hashmap"),
    Case(everything(4, None), 7, "checkpoint"),
    Case(everything(3), 3),
    # Keyed states: few keys, and states that only some subtasks register.
    Case(everything(4, 128, keys=1), 3, "native"),
    Case(everything(4, 10, keys=1).with_(**ROCKSDB), 6),
    Case(everything(4, 128, keys=0), 3),
    Case(everything(3, 129, keys=0).with_(**COMPRESSED), 2, "checkpoint"),
    Case(everything(4, 128, lazy=1).with_(**ROCKSDB), 3, onto="rocksdb"),
    Case(everything(4, 128, lazy=1, raw_keyed=1, raw_operator=1).with_(**ROCKSDB), 6, onto="rocksdb", quick=True),
    Case(everything(4, 1000, lazy=1, keys=5).with_(**ROCKSDB, **COMPRESSED), 7),
    Case(everything(4, 128, lazy=1, keys=5), 3, "native"),
    Case(
        Job(
            "typed",
            2,
            {"seed": 5, "POJO of subclasses": 1, "POJO with subclasses in it": 1},
            max_parallelism=128,
            **ROCKSDB,
        ),
        3,
        "native",
        onto="rocksdb",
        max_after=1000,
        label="a subclass per subtask",
    ),
    # Raw state, which operators frame themselves.
    Case(everything(4, 128, raw_keyed=1, raw_operator=1), 6),
    Case(everything(3, 1000, raw_keyed=1).with_(**ROCKSDB), 2),
    Case(everything(4, 129, raw_keyed=1, raw_operator=1).with_(**COMPRESSED), 1, "native"),
    Case(everything(7, 10, raw_operator=1), 3, "checkpoint"),
    # Operators with different parallelisms, before and after the rescale.
    Case(everything(4).with_(exceptions={"lists": 7, "rules": 2}), 3, exceptions_after={"lists": 5}),
    Case(
        everything(3, None).with_(exceptions={"states": 2, "lists": 1}, **ROCKSDB),
        6,
        exceptions_after={"states": 4, "rules": 1},
    ),
    # Graphs.
    Case(graph("clicks", 4), 6, onto="rocksdb"),
    Case(graph("windows", 4).with_(**ROCKSDB), 3, onto="rocksdb"),
    Case(graph("windows", 3).with_(**COMPRESSED), 7, "native"),
    Case(graph("sql", 4), 3),
    Case(graph("sql", 3).with_(**ROCKSDB), 6, onto="rocksdb"),
    Case(graph("splits", 4), 6, quick=True),
    Case(graph("splits", 4), 1, "checkpoint"),
    Case(graph("async", 4), 3, "native"),
    Case(graph("cep", 3).with_(**ROCKSDB), 2),
    Case(graph("cep", 4), 7, "checkpoint", onto="hashmap"),
    Case(graph("finished", 4), 6),
    Case(graph("finished", 3, partially=1), 3),
    Case(graph("finished", 3, partially=1), 2, refused="finished", quick=True),
    # A second rescale, a restore at another parallelism, or CLAIM mode.
    Case(everything(4, raw_keyed=1, raw_operator=1), 6, restored_parallelism=3),
    Case(everything(3, 1000).with_(**COMPRESSED), 7, "native", restored_parallelism=4),
    Case(everything(4, lazy=1).with_(**ROCKSDB), 7, second_after=3, onto="rocksdb"),
    Case(everything(4, 129).with_(**COMPRESSED), 3, "checkpoint", second_after=5),
    Case(everything(4, None, raw_keyed=1, raw_operator=1), 3, claim=True),
    Case(everything(3).with_(**ROCKSDB), 6, onto="rocksdb", claim=True),
    Case(graph("windows", 4), 3, "checkpoint", claim=True),
)
