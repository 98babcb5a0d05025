"""Programs and rights that tests need. Where one is missing, the test is skipped; the reason says what to install.

With `RESCALE_NO_SKIPS` set, a missing program fails the test, because it can be installed. Tests that need a cluster,
images for it, or rights that most containers lack are still skipped.
"""

from __future__ import annotations

import os
import shutil
from typing import NoReturn

import pytest

_JDK = "apt install openjdk-17-jdk-headless"

_INSTALL = {
    "cc": "apt install gcc",
    "chromedriver": "apt install chromium-driver",
    "chromium": "apt install chromium",
    "git": "apt install git",
    "gpg": "apt install gpg",
    "helm": "go install helm.sh/helm/v3/cmd/helm@latest",
    "helm-docs": "go install github.com/norwoodj/helm-docs/cmd/helm-docs@latest",
    "java": _JDK,
    "javac": _JDK,
    "kubectl": "apt install kubernetes-client",
    "mkfs.btrfs": "apt install btrfs-progs",
    "mvn": "apt install maven",
    "openssl": "apt install openssl",
    "uv": "pip install uv",
    "versitygw": "go install github.com/versity/versitygw/cmd/versitygw@latest",
}
"""Command that installs a program; `apt` is Debian's."""


def need(program: str, what_for: str) -> None:
    """Skip the test if `program` is not on the path; with `RESCALE_NO_SKIPS` set, fail it.

    The reason is "{program} is not on the path: {what_for}", with the command that installs the program.
    """
    if not shutil.which(program):
        skip_for_lack(f"{program} is not on the path: {what_for} ({_INSTALL[program]})")


def skip_for_lack(message: str) -> NoReturn:
    """Skip the test; with `RESCALE_NO_SKIPS` set, fail it."""
    if os.environ.get("RESCALE_NO_SKIPS"):
        pytest.fail(message)
    pytest.skip(message)


def skip_in_any_case(message: str) -> NoReturn:
    """Skip the test even with RESCALE_NO_SKIPS, because no installed tool would make it run."""
    pytest.skip(f"{message} (RESCALE_NO_SKIPS does not ask for that)")


def need_kubernetes(what_for: str) -> None:
    """Skip the test unless `KUBECONFIG` names a cluster."""
    if not os.environ.get("KUBECONFIG"):
        skip_in_any_case(f"KUBECONFIG names no Kubernetes cluster: {what_for}")
