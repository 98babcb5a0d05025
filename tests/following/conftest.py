"""A directory on a disk or in S3, and a job with checkpoints in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.storage.locations import join
from support.checkpoints import Checkpoints, checkpoints_in
from support.followers import FIXTURE
from support.s3 import new_home
from support.slow import slow


@pytest.fixture(params=["local", slow("s3")])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    declared_paths = ("target", "target.rescale", "target-5", "target-5.rescale", "2/target.rescale")
    return new_home(request.param, request, tmp_path / "home", *declared_paths)


@pytest.fixture
def job(home: str, tmp_path: Path) -> Checkpoints:
    return checkpoints_in(FIXTURE, join(home, "job"), tmp_path / "scratch")
