"""Needs of a test that the machine may not meet: the test is skipped then, and says what to install.

With `RESCALE_NO_SKIPS` set, a program that is missing fails the test: it can be installed. A test that needs a right
which a container has not been given, a cluster, or images for one is skipped all the same.
"""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest


def need(program: str, what_for: str) -> None:
    """Skip the test if `program` is not on the path; with `RESCALE_NO_SKIPS` set, fail it.

    `what_for` completes the sentence "{program} is not on the path:" and names the package to install, if there is one.
    """
    if not shutil.which(program):
        skip_for_lack(f"{program} is not on the path: {what_for}")


def skip_for_lack(message: str) -> NoReturn:
    """Skip the test; with `RESCALE_NO_SKIPS` set, fail it."""
    if os.environ.get("RESCALE_NO_SKIPS"):
        pytest.fail(message)
    pytest.skip(message)


def skip_in_any_case(message: str) -> NoReturn:
    """Skip the test, whatever is set: nothing that could be installed is missing."""
    pytest.skip(f"{message} (RESCALE_NO_SKIPS does not ask for that)")


def need_kubernetes(what_for: str) -> None:
    """Skip the test unless `KUBECONFIG` names a cluster."""
    if not os.environ.get("KUBECONFIG"):
        skip_in_any_case(f"KUBECONFIG names no Kubernetes cluster: {what_for}")
