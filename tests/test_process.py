"""A step's process: what it says is passed on, and nothing of it is left open."""

from __future__ import annotations

import gc
import json
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import pytest

from rescale.process import Step, run_step


class _Told(StrEnum):
    """A main of this test."""

    STEP = "told_step"


_MAIN = """
import sys
print("WARNING: Using incubator modules: jdk.incubator.vector", file=sys.stderr)
print("WARNING: a disk is slow", file=sys.stderr)
with open(sys.argv[sys.argv.index("--result") + 1], "w") as file:
    file.write('{"status": "done", "bytes": 5, "seconds": 1}')
"""


def test_what_a_step_says_is_passed_on_but_for_what_every_jvm_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{_Told.STEP}.py").write_text(_MAIN)
    left: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", left.append)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        document = run_step(
            cast("Step", _Told.STEP),
            str(tmp_path / "result.json"),
            [],
            said.append,
            environment={"PYTHONPATH": str(tmp_path)},
        )
        gc.collect()
    assert said == ["WARNING: a disk is slow"]
    assert document == {"bytes": 5}
    assert json.loads((tmp_path / "result.json").read_text())["seconds"] == 1
    assert not [one for one in left if isinstance(one.exc_value, ResourceWarning)]
