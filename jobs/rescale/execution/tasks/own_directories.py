"""Scratch directories for the tasks of this process, one in each configured place (`SPARK_LOCAL_DIRS`).

Tasks and their children put all files there, so the files of a killed process are removed with the directories.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from rescale.storage.scratch import ScratchKind, scratch_folder
from rescale.text.errors import NO_ROOM, RequestError, StoreError


def own_directories(places: Iterable[str], kind: ScratchKind, cleanup: ExitStack) -> list[str]:
    """Make a directory in each place, which `cleanup` removes, and return their paths in the same order.

    A place that is named twice gets one directory. Raises `StoreError` if there is no room, `RequestError` for other
    failures.
    """
    by_place: dict[str, str] = {}
    paths = []
    for place in places:
        try:
            by_place[place] = by_place.get(place) or str(cleanup.enter_context(scratch_folder(Path(place), kind)))
        except OSError as error:
            raise (StoreError if error.errno in NO_ROOM else RequestError)(
                f"tasks have no scratch directory: {error.strerror}",
                path=place,
                advice="name a directory with room in SPARK_LOCAL_DIRS, and one in TMPDIR",
            ) from None
        paths.append(by_place[place])
    return paths
