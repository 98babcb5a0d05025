"""What a test needs of the machine. Without it the test is skipped and says so.

With `RESCALE_NO_SKIPS` set a program that is missing fails the test: it can be installed. Another sort of want skips it
all the same: a right that a container has not been given, a cluster, the images for one.
"""

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


def skip_in_any_case(message: str) -> NoReturn:
    """Skips the test, whatever is set: what is missing is nothing to install."""
    pytest.skip(f"{message} (RESCALE_NO_SKIPS does not ask for that)")


def need_kubernetes(what_for: str) -> None:
    """Skips the test without a cluster."""
    if not os.environ.get("KUBECONFIG"):
        skip_in_any_case(f"KUBECONFIG names no Kubernetes cluster: {what_for}")
