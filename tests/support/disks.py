"""Disks of a given size, for tests with a full disk: file systems in memory, mounted for a test.

Tests that need such a disk are skipped where mounting is not allowed, as in most containers.

A directory with a quota is on Btrfs, because Linux enforces the quotas of Btrfs in every configuration. The Btrfs is in
an image file on a disk in memory.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.disk_waits import real_waits
from support.needs import need, skip_in_any_case

MIB = 1 << 20


@dataclass(frozen=True)
class Disk:
    """A disk that is mounted at `path`."""

    path: Path

    def resize(self, size: int) -> None:
        """Change the size in bytes, which is rounded up to pages."""
        self._remount(f"size={size}")

    def make_read_only(self) -> None:
        self._remount("ro")

    def make_writable(self) -> None:
        self._remount("rw")

    def _remount(self, option: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{option}", str(self.path)], check=True)


@contextmanager
def disk_of(size: int, path: Path) -> Iterator[Disk]:
    """Mount a disk of `size` bytes until the block ends; skip the test where mounting is not allowed.

    Some disks report only at fsync that they are full, so this process calls fsync meanwhile.
    """
    path.mkdir()
    _mount("-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path))
    try:
        with real_waits():
            yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def mounted_at(source: Path, path: Path) -> Iterator[Path]:
    """Make `source` and `path`, and mount `source` at `path` until the block ends; skip tests as `disk_of` does."""
    for folder in (source, path):
        folder.mkdir()
    with bound(source, path):
        yield path


@contextmanager
def bound(source: Path, path: Path) -> Iterator[None]:
    """Mount the directory `source` at `path`, too, until the block ends; skip tests as `disk_of` does."""
    _mount("--bind", str(source), str(path))
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def _mount(*arguments: str) -> None:
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        skip_in_any_case(f"this test has no disk of its own, because none may be mounted here: {_reason(done)}")


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return the first line of a command's error output; the next lines only say where to read more."""
    return done.stderr.strip().partition("\n")[0]


@dataclass(frozen=True)
class Share:
    """A directory with a quota on a disk that is not full."""

    path: Path

    def limit(self, size: int | None) -> None:
        """Set the quota in bytes; None removes it."""
        for limit in ("none", size or "none"):  # above the quota, Btrfs cannot even store another quota
            _run("btrfs", "qgroup", "limit", str(limit), str(self.path))

    def used(self) -> int:
        """Return the used bytes as the quota counts them."""
        _run("sync", "-f", str(self.path))
        output = _run("btrfs", "qgroup", "show", "--raw", "-f", str(self.path))
        return int(output.splitlines()[-1].split()[1])


@contextmanager
def share_of_a_disk(path: Path) -> Iterator[Share]:
    """Make a directory with a quota until the block ends; skip the test where mounting is not allowed."""
    need("mkfs.btrfs", "a file system with quotas is made")
    with disk_of(256 * MIB, path) as disk:
        image, mounted = disk.path / "image", disk.path / "mounted"
        mounted.mkdir()
        with image.open("wb") as file:
            file.truncate(240 * MIB)
        _run("mkfs.btrfs", "--quiet", "--mixed", str(image))
        command = ["mount", "-o", "loop", str(image), str(mounted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            skip_in_any_case(f"this test has no disk with quotas, because none may be mounted here: {_reason(done)}")
        try:
            _run("btrfs", "quota", "enable", str(mounted))
            _run("btrfs", "subvolume", "create", str(mounted / "share"))
            yield Share(mounted / "share")
        finally:
            subprocess.run(["umount", str(mounted)], check=True)


def _run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
