"""`rescale --version` in a checkout and without one."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import version
from pathlib import Path

from rescale.cli.version import DISTRIBUTION, version_text
from support.needs import need


def test_version_in_a_checkout_names_its_commit(tmp_path: Path) -> None:
    need("git", "a checkout is made")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message", "first"]):
        subprocess.run([*git, *command], check=True)
    text = version_text(tmp_path)
    assert re.fullmatch(rf"rescale {re.escape(version(DISTRIBUTION))} \(commit [0-9a-f]{{8}}\)", text)


def test_version_without_a_checkout_has_no_commit(tmp_path: Path) -> None:
    assert version_text(tmp_path) == f"rescale {version(DISTRIBUTION)}"
