"""Spark's masters, told apart as its `SparkMasterRegex` and `SparkSubmit` do."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_LOCAL = re.compile(r"local(?:\[([1-9][0-9]{0,4}|\*)(?:\s*,\s*([1-9][0-9]{0,4}))?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[.*\]")
_CLUSTER = re.compile(r"yarn|(spark|k8s)://.+")


class LocalMaster(NamedTuple):
    """Spark's driver does all work itself: in so many `threads`, or `*`, trying a task so often, if that is said."""

    threads: str
    attempts: str | None

    @property
    def cores(self) -> int:
        return os.cpu_count() or 1 if self.threads == "*" else int(self.threads)


def local_master(word: str | None) -> LocalMaster | None:
    """None for any other master, and where the word is left to Spark's configuration."""
    found = _LOCAL.fullmatch(word or "")
    return None if found is None else LocalMaster(found[1] or "1", found[2])


def is_on_this_machine(word: str | None) -> bool:
    """Whether all of Spark runs here: in the driver, or in executors that are the driver's children."""
    return local_master(word) is not None or _LOCAL_CLUSTER.fullmatch(word or "") is not None


def is_master(word: str) -> bool:
    return is_on_this_machine(word) or _CLUSTER.fullmatch(word) is not None
