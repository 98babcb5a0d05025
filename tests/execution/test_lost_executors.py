"""Executors and workers are killed during their tasks, one in each stage of a run: others repeat the work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import snapshots
from support.faults import Faults, Kind
from support.needs import need
from support.resuming import assert_right

pytestmark = pytest.mark.slow


@pytest.mark.gate
@pytest.mark.parametrize(
    ("master", "kind"), [("local-cluster[2,1,1024]", Kind.KILL_EXECUTOR), ("local[2]", Kind.KILL_WORKER)]
)
def test_run_that_loses_an_executor_or_worker_in_each_stage_publishes(master: str, kind: Kind, tmp_path: Path) -> None:
    if kind is Kind.KILL_EXECUTOR:
        need("java", "Spark runs on a JVM")
    source, target = snapshots.directory("2-clicks"), str(tmp_path / "target")
    call_by_stage = {"sorting": f"read {source}/", "writing": f"{target}/", "validating": f"read {target}/"}
    faults = [
        Faults(str(tmp_path / stage), kind, 1, where, writes_only=stage == "writing")
        for stage, where in call_by_stage.items()
    ]
    hook = tmp_path / "hook"
    hook.mkdir()
    arguments = ["run", source, "--target", target, "--max-parallelism", "1000", "--master", master]
    process = subprocess.run(
        [sys.executable, "-c", _UNINLINED, *arguments],
        env={**os.environ, **faults[0].environment(hook, *faults[1:]), "SPARK_LOCAL_DIRS": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert [any(fault.where in line for line in fault.calls()) for fault in faults] == [True] * len(faults), (
        "all were lost"
    )
    assert_right(target, source)
    assert not list(tmp_path.glob("rescale-tasks-*"))


_UNINLINED = """
from unittest.mock import patch
from rescale.cli.main import main
with patch("rescale.planning.streams.inline.INLINE_LIMIT", 0):
    raise SystemExit(main())
"""
