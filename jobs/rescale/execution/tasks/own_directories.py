"""Scratch directories for the tasks of this process, one in each configured place (`SPARK_LOCAL_DIRS`).

Tasks and their children put all files there, so the files of a killed process are removed with the directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from rescale.storage.scratch import ScratchKind, scratch_errors, scratch_folder


def own_directories(places: Iterable[str], kind: ScratchKind, cleanup: ExitStack) -> list[str]:
    """Make a directory in each place, which `cleanup` removes, and return their paths in the same order.

    A place that is named twice gets one directory. Raises the errors of `scratch_errors`.
    """
    by_place: dict[str, str] = {}
    paths = []
    for place in places:
        with scratch_errors(place):
            by_place[place] = by_place.get(place) or str(cleanup.enter_context(scratch_folder(Path(place), kind)))
        paths.append(by_place[place])
    return paths
