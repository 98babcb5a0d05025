"""Directory with a source, and with foreign snapshots, directories and mounts beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.runstate.claim import claim
from rescale.storage.files import owned
from support.disks import bound
from support.pipeline import plan_rescale
from support.snapshots import directory

SAVEPOINT = Path(directory("2-clicks"))
SHAPE = ("--parallelism", "3")


@dataclass(frozen=True)
class Ground:
    """Directory `home` with a source and what a test adds; mounts in `mounts` end with the test."""

    home: Path
    mounts: ExitStack

    @property
    def source(self) -> Path:
        return self.home / "source"

    @property
    def target(self) -> Path:
        return self.home / "target"

    @property
    def documents(self) -> Path:
        return self.home / "target.rescale"

    def savepoint(self, name: str) -> Path:
        """Make a foreign snapshot."""
        shutil.copytree(SAVEPOINT, self.home / name)
        return self.home / name

    def folder(self, name: str, *files: str) -> Path:
        """Make a foreign directory with files."""
        (self.home / name).mkdir()
        for file in files:
            (self.home / name / file).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name / file).write_text(f"the only copy of {file}")
        return self.home / name

    def bind(self, folder: Path, at: Path) -> None:
        at.mkdir(parents=True, exist_ok=True)
        self.mounts.enter_context(bound(folder, at))

    def run(self, target: Path | None = None) -> int:
        return main(["run", str(self.source), "--target", str(target or self.target), *SHAPE])


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    with ExitStack() as mounts:
        ground = Ground(tmp_path / "home", mounts)
        ground.home.mkdir()
        ground.savepoint("source")
        yield ground


def interrupted(ground: Ground, target: Path) -> None:
    """Claim the target, then forget the claim, as if a run of another process had claimed it and been interrupted."""
    claim(plan_rescale(str(ground.source), str(target), ["3"]))
    owned.forget()
