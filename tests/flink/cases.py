"""Which snapshots are rescaled, how, and what is done with the result: one table for both release lines.

Every value of a dimension (parallelisms, max parallelism, kind of snapshot, keyed states, operator state, graph, what
follows) occurs, and most pairs that could disturb each other; not their product.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flink.harness import Job


@dataclass(frozen=True)
class Case:
    """One snapshot of `job`, rescaled to parallelism `after` (`exceptions_after`: operators with another one).

    Flink restores the result on backend `onto`, at parallelism `restored` if that is not `after`. If `then` is set, we
    rescale the result again to it, before Flink sees it. With `claim`, Flink owns the result and must delete it. If
    `refused` is set, there must be no result, and the refusal says this.
    """

    job: Job
    after: int
    kind: str = "canonical"
    onto: str = "hashmap"
    exceptions_after: Mapping[str, int] = field(default_factory=dict)
    restored: int | None = None
    then: int | None = None
    claim: bool = False
    refused: str | None = None

    @property
    def name(self) -> str:
        job = self.job
        words = [job.scenario, *sorted(job.parameters), f"{job.parallelism}to{self.after}"]
        words += [f"{operator}={number}" for operator, number in self.exceptions_after.items()]
        words += [f"then{self.then}"] if self.then else []
        words += [f"restored{self.restored}"] if self.restored else []
        words += [f"max{job.max_parallelism}", job.backend, self.kind]
        words += [word for word in ("compression",) if job.compression] + [word for word in ("claim",) if self.claim]
        return "-".join(words)

    @property
    def shape(self) -> list[str]:
        """The first rescale's words for the new parallelism."""
        return [str(self.after), *(f"{operator}={number}" for operator, number in self.exceptions_after.items())]

    @property
    def restored_job(self) -> Job:
        """The job that Flink restores the result as."""
        exceptions = {} if self.then or self.restored else self.exceptions_after
        parallelism = self.restored or self.then or self.after
        return self.job.with_(parallelism=parallelism, exceptions=exceptions, backend=self.onto)

    @property
    def dealt_once(self) -> bool:
        """SPLIT elements were redistributed once, by us: each must lie where Flink would have put it."""
        return not self.then and not self.restored


def _everything(before: int, maximum: int | None = 128, /, **parameters: int) -> Job:
    return Job("everything", before, {"seed": 11 + before, **parameters}, max_parallelism=maximum)


def _graph(scenario: str, before: int, **parameters: int) -> Job:
    return Job(scenario, before, {"seed": 5, **parameters}, max_parallelism=128)


_ROCKSDB = {"backend": "rocksdb"}
_COMPRESSED = {"compression": True}

CASES = (
    # Parallelism, with max parallelism and kind of snapshot.
    Case(_everything(4), 1),
    Case(_everything(4, 10), 3, "native"),
    Case(_everything(4, 129).with_(**_ROCKSDB), 6, onto="rocksdb"),
    Case(_everything(4, 1000).with_(**_COMPRESSED), 7, "checkpoint"),
    Case(_everything(1, None), 5),
    Case(_everything(1, 32768).with_(**_ROCKSDB), 5),
    Case(_everything(3, 32768, keys=30), 2, "native"),
    Case(_everything(3, None).with_(**_ROCKSDB, **_COMPRESSED), 2, onto="rocksdb"),
    Case(_everything(7, keys=60), 24, onto="rocksdb"),
    Case(_everything(7, 1000, keys=60).with_(**_COMPRESSED), 24, "native"),
    Case(_everything(4, 129).with_(**_COMPRESSED), 3, "native"),
    Case(_everything(4, 10).with_(**_ROCKSDB), 1, onto="rocksdb"),
    Case(_everything(3, 1000), 2, "checkpoint", onto="hashmap"),
    Case(_everything(4, None), 7, "checkpoint"),
    Case(_everything(3), 3),
    # Keyed states: few keys, and states that only some subtasks know.
    Case(_everything(4, 128, keys=1), 3, "native"),
    Case(_everything(4, 10, keys=1).with_(**_ROCKSDB), 6),
    Case(_everything(4, 128, keys=0), 3),
    Case(_everything(3, 129, keys=0).with_(**_COMPRESSED), 2, "checkpoint"),
    Case(_everything(4, 128, lazy=1).with_(**_ROCKSDB), 3, onto="rocksdb"),
    Case(_everything(4, 1000, lazy=1, keys=5).with_(**_ROCKSDB, **_COMPRESSED), 7),
    # The operators' own framing.
    Case(_everything(4, 128, raw_keyed=1, raw_operator=1), 6),
    Case(_everything(3, 1000, raw_keyed=1).with_(**_ROCKSDB), 2),
    Case(_everything(4, 129, raw_keyed=1, raw_operator=1).with_(**_COMPRESSED), 1, "native"),
    Case(_everything(7, 10, raw_operator=1), 3, "checkpoint"),
    # Operators of different parallelism, before and after.
    Case(_everything(4).with_(exceptions={"lists": 7, "rules": 2}), 3, exceptions_after={"lists": 5}),
    Case(
        _everything(3, None).with_(exceptions={"states": 2, "lists": 1}, **_ROCKSDB),
        6,
        exceptions_after={"states": 4, "rules": 1},
    ),
    # Graphs.
    Case(_graph("clicks", 4), 6, onto="rocksdb"),
    Case(_graph("windows", 4).with_(**_ROCKSDB), 3, onto="rocksdb"),
    Case(_graph("windows", 3).with_(**_COMPRESSED), 7, "native"),
    Case(_graph("sql", 4), 3),
    Case(_graph("sql", 3).with_(**_ROCKSDB), 6, onto="rocksdb"),
    Case(_graph("splits", 4), 6),
    Case(_graph("splits", 4), 1, "checkpoint"),
    Case(_graph("async", 4), 3, "native"),
    Case(_graph("cep", 3).with_(**_ROCKSDB), 2),
    Case(_graph("cep", 4), 7, "checkpoint", onto="hashmap"),
    Case(_graph("finished", 4), 6),
    Case(_graph("finished", 3, partially=1), 3),
    Case(_graph("finished", 3, partially=1), 2, refused="finished"),
    # What follows.
    Case(_everything(4, raw_keyed=1, raw_operator=1), 6, restored=3),
    Case(_everything(3, 1000).with_(**_COMPRESSED), 7, "native", restored=4),
    Case(_everything(4, lazy=1).with_(**_ROCKSDB), 7, then=3, onto="rocksdb"),
    Case(_everything(4, 129).with_(**_COMPRESSED), 3, "checkpoint", then=5),
    Case(_everything(4, None, raw_keyed=1, raw_operator=1), 3, claim=True),
    Case(_everything(3).with_(**_ROCKSDB), 6, onto="rocksdb", claim=True),
    Case(_graph("windows", 4), 3, "checkpoint", claim=True),
)
