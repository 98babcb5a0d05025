"""A step's process: its output is passed on, no file or pipe stays open, and a damaged result is an error."""

from __future__ import annotations

import gc
import json
import sys
import warnings
from enum import StrEnum
from pathlib import Path
from typing import Any, cast

import pytest

from rescale.process import run_step
from rescale.runstate.step import Step, StepEnd
from rescale.text.errors import StoreError


class _Script(StrEnum):
    """Name of the script that the test starts as a step."""

    STEP = "script_step"


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
    (tmp_path / f"{_Script.STEP}.py").write_text(_MAIN)
    unraisables: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", unraisables.append)
    messages: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        document = run_step(
            cast("Step", _Script.STEP),
            str(tmp_path / "result.json"),
            [],
            messages.append,
            environment={"PYTHONPATH": str(tmp_path)},
        )
        gc.collect()
    assert messages == ["WARNING: a disk is slow"]
    assert document.read(dict[str, object]) == {"status": "done", "bytes": 5, "seconds": 1}
    assert json.loads((tmp_path / "result.json").read_text())["seconds"] == 1
    assert not [unraisable for unraisable in unraisables if isinstance(unraisable.exc_value, ResourceWarning)]


def test_nothing_is_imported_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, mains = tmp_path / "here", tmp_path / "mains"
    here.mkdir()
    mains.mkdir()
    (here / "random.py").write_text("raise SystemExit(9)")
    (mains / f"{Step.RUN}.py").write_text(f"import random{_MAIN}")
    monkeypatch.chdir(here)
    document = run_step(Step.RUN, str(tmp_path / "result"), [], environment={"PYTHONPATH": str(mains)})
    assert document.read(StepEnd) == StepEnd("done", 1)


_WRITE_RESULT = """
import sys
from pathlib import Path
Path(sys.argv[sys.argv.index("--result") + 1]).write_bytes({data!r})
"""


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no JSON",
        b"\xff",
        b"[" * 2000,
        b'{"status":' + b"[" * 2000,
        b"[]",
        b"{}",
        b'{"status": "failed"}',
        b'{"status": "failed", "error": "StoreError"}',
    ],
    ids=range(9),
)
def test_a_result_that_is_damaged(data: bytes, tmp_path: Path) -> None:
    (tmp_path / f"{Step.RUN}.py").write_text(_WRITE_RESULT.format(data=data))
    result = tmp_path / "result"
    with pytest.raises(StoreError, match="result of a step cannot be read") as caught:
        run_step(Step.RUN, str(result), [], environment={"PYTHONPATH": str(tmp_path)})
    assert caught.value.path == str(result)
