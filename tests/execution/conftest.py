"""Results that a test may damage: copies of finished results, which each folder makes in its fixture `finished`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.planting import Result


@pytest.fixture
def result_of(finished: Callable[[str], Result], tmp_path: Path) -> Callable[[str], Result]:
    """Return a function that copies the finished result of a name."""

    def copy(name: str) -> Result:
        original = finished(name)
        shutil.copytree(original.target, tmp_path / "target")
        shutil.copy(original.candidate, tmp_path / "candidate")
        return Result(original.source, tmp_path / "target", tmp_path / "candidate")

    return copy
