"""All random examples of the property tests; the quick tests only try a part of them (`support.examples`)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.examples import ALL

TESTS = Path(__file__).parent


def folders() -> list[str]:
    """Return the folders with property tests, which the text of their files shows."""
    property_test_paths = (path for path in TESTS.rglob("test_*.py") if b"\n@given(" in path.read_bytes())
    return sorted({path.relative_to(TESTS).parts[0] for path in property_test_paths})


@pytest.mark.slow
@pytest.mark.parametrize("folder", folders())
def test_properties_hold(folder: str) -> None:
    command = [
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0"),
        *("-m", "hypothesis and not slow", "--hypothesis-profile", ALL, str(TESTS / folder)),
    ]
    process = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
