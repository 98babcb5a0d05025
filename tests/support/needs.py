"""What a test needs of the machine. Without it the test is skipped and says so; where nothing may be, it fails."""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need(program: str, what_for: str) -> None:
    """Skips the test if `program` is not on the path; with `RESCALE_NO_SKIPS` set, fails it."""
    if shutil.which(program):
        return
    skip_for_lack(f"{program} is not on the path: {what_for}")


def skip_for_lack(message: str) -> NoReturn:
    """Skips the test, or with `RESCALE_NO_SKIPS` set, fails it."""
    if os.environ.get("RESCALE_NO_SKIPS"):
        pytest.fail(message)
    pytest.skip(message)


def need_kubernetes(what_for: str) -> None:
    """Skips the test without a cluster: that is nothing to install, so no test fails for want of it."""
    if not os.environ.get("KUBECONFIG"):
        pytest.skip(f"KUBECONFIG names no Kubernetes cluster: {what_for}")
