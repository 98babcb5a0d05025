"""A directory on a disk or in S3, and a job with checkpoints in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.storage.locations import join
from support.checkpoints import Checkpoints, checkpoints_in
from support.followers import FIXTURE
from support.s3 import S3Server
from support.slow import slow


@pytest.fixture(params=["local", slow("s3")])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "local":
        return str(tmp_path / "home")
    server: S3Server = request.getfixturevalue("s3")
    home = f"s3://{server.new_bucket('following')}/home"
    for place in ("target", "target.rescale", "target-5", "target-5.rescale", "2/target.rescale"):
        server.declare(f"{home}/{place}")
    return home


@pytest.fixture
def job(home: str, tmp_path: Path) -> Checkpoints:
    return checkpoints_in(FIXTURE, join(home, "job"), tmp_path / "scratch")
