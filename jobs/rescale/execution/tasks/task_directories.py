"""Scratch directories for the tasks of this process, one in each configured directory (`SPARK_LOCAL_DIRS`).

Tasks and their children put all files there, so the files of a killed process are removed with the directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from rescale.storage.scratch import ScratchKind, scratch_errors, scratch_folder


def make_task_directories(parents: Iterable[str], kind: ScratchKind, cleanup: ExitStack) -> list[str]:
    """Make a directory in each of `parents`, which `cleanup` removes, and return the paths in the same order.

    A parent that is named twice gets one directory. Raises the errors of `scratch_errors`.
    """
    directory_by_parent: dict[str, str] = {}
    paths = []
    for parent in parents:
        with scratch_errors(parent):
            directory_by_parent[parent] = directory_by_parent.get(parent) or str(
                cleanup.enter_context(scratch_folder(Path(parent), kind))
            )
        paths.append(directory_by_parent[parent])
    return paths
