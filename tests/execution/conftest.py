"""Results that a test may damage: copies of finished results, which each folder makes in its fixture `finished`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.planting import Result


@pytest.fixture
def result_of(finished: Callable[..., Result], tmp_path: Path) -> Callable[..., Result]:
    """Return a function that copies the result that `finished` returns for the same arguments."""

    def copy(*arguments: str) -> Result:
        original = finished(*arguments)
        shutil.copytree(original.target, tmp_path / "target")
        shutil.copy(original.candidate, tmp_path / "candidate")
        return replace(original, target=tmp_path / "target", candidate=tmp_path / "candidate")

    return copy


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a scratch directory that all tasks of the test use."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(folder))
    return folder
