"""Plans: an accepted plan is written back as an equal one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from fuzzing.subject import Subject
from rescale.plan.plan import plan_from_json, plan_to_json
from support.pipeline import plan_rescale
from support.snapshots import directory


def _seeds() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in (
            ("2-clicks", {"parallelism": ["3"]}),
            ("2-clicks", {"parallelism": ["3"], "max_parallelism": ["40"]}),
            ("2-rocksdb-native", {"parallelism": ["3"]}),
            ("1.20-raw", {"parallelism": ["1"]}),
        ):
            yield plan_to_json(plan_rescale(directory(name), f"{folder}/target", **shape))  # type: ignore[arg-type]


def _look(data: bytes) -> None:
    plan = plan_from_json(data, "plan")
    reread_plan = plan_from_json(plan_to_json(plan), "plan")
    assert reread_plan == plan
    assert reread_plan.digest == plan.digest


SUBJECT = Subject(_seeds, _look)
