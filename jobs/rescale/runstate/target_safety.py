"""Checks the two places that a run may change: its target, and the directory of documents beside it.

Before a run writes anything, it checks that neither place leads into the source, and that the directory of documents is
Rescale's own: not a link, not a mount, and marked (`storage.files.owned`). A directory without a marker belongs to an
earlier release of Rescale if all its files have names of documents, and a plan, a claim or a mark is among them. S3 has
no links; there, every object with the name of a document counts as a document.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from rescale.plan.plan import Plan
from rescale.runstate.places import is_document, is_follower_file, is_in_follower_directory, is_staged, run_directory
from rescale.snapshot.reading.discovery import METADATA
from rescale.storage.files import document_folders, owned
from rescale.storage.files.local_errors import translated_errors
from rescale.storage.files.mounts import device_path_of
from rescale.storage.locations import contains, is_s3, join, parent, resolve_links, split_s3
from rescale.storage.store import open_store
from rescale.text.errors import RequestError

_DISTINCTIVE_NAMES = re.compile(r"claim|discarding|publishing|published|plan-[0-9a-f]{64}\.json")
"""Names of documents that no other program writes."""


def refuse_overlap(snapshot: str, target: str) -> None:
    """Raise `RequestError` if the target is, contains or lies inside the source, also through links and mounts."""
    own_places = [resolve_links(target), run_directory(target)]
    overlaps_by_name = any(
        contains(resolve_links(snapshot), place) or contains(place, resolve_links(snapshot)) for place in own_places
    )
    if overlaps_by_name or _overlaps_on_disk(snapshot, target):
        raise RequestError(
            "the target must not lie inside the source, nor contain it",
            path=target,
            expected=f"{target} and {run_directory(target)} outside {snapshot}",
            advice="name another target directory",
        )


def refuse_place_of_documents(target: str) -> None:
    """Raise `RequestError` if a target has the name of a directory of documents, or lies in a subdirectory of one.

    There, documents of another target could lie in the result, so that Flink could not delete the result's directory.
    Or runs to the other target could remove files of the result. Only a follower's rounds are targets that lie among
    documents.
    """
    components = (split_s3(target)[1] if is_s3(target) else target).split("/")
    is_in_folder = any(
        component.endswith(document_folders.DOCUMENTS_SUFFIX)
        and next_component in document_folders.FOLDERS
        and next_component != document_folders.ROUNDS
        for component, next_component in pairwise(components)
    )
    if is_in_folder or components[-1].endswith(document_folders.DOCUMENTS_SUFFIX):
        raise RequestError(
            "the target has the name of a directory in which Rescale keeps the documents of a run",
            path=target,
            expected=f"a directory whose name does not end with {document_folders.DOCUMENTS_SUFFIX}",
            advice="name another target directory",
        )


def _overlaps_on_disk(snapshot: str, target: str) -> bool:
    if is_s3(snapshot) or is_s3(target):
        return False
    source_location, target_location = device_path_of(Path(snapshot)), device_path_of(Path(target))
    return source_location.contains(target_location) or target_location.contains(source_location)


def is_same_place(target: str, other_target: str) -> bool:
    """Return whether two targets are the same directory, also through links and mounts."""
    if is_s3(target) or is_s3(other_target):
        return target == other_target
    return device_path_of(Path(target)) == device_path_of(Path(other_target))


def refuse_misplaced(target: str) -> None:
    """Raise `RequestError` if the target is a file, or lies inside a snapshot.

    Flink deletes the directory of a snapshot only if it holds nothing else, and the validation of a result refuses
    other files in it.
    """
    store, metadata = open_store(target), join(parent(resolve_links(target)), METADATA)
    if store.stat(target) is not None:
        raise RequestError("the target is a file", path=target, advice="choose a directory that does not exist yet")
    try:
        is_inside = store.stat(metadata) is not None
    except RequestError:  # S3 may allow requests for the target's own directory only
        return
    if is_inside:
        raise RequestError(
            "the target must not lie inside a snapshot",
            path=target,
            expected="a directory beside other snapshots",
            found=metadata,
            advice="name another target directory",
        )


def refuse_unsafe_target(plan: Plan) -> None:
    """Raise `RequestError` if the target leads to the source, or the directory beside it is not Rescale's.

    Write nothing. After this call, this process and its tasks refuse to change anything in the source. The source may
    be a pin or a round of the target's own follower, although these lie beside the target.
    """
    if not is_s3(plan.source) and not is_in_follower_directory(plan.source):
        owned.protect([plan.source])
    if not is_follower_file(plan.target, plan.source):
        refuse_overlap(plan.source, plan.target)
    check_documents(plan.target)


def check_documents(target: str) -> None:
    """Raise `RequestError` if the directory of documents beside a target, or a subdirectory of it, is not Rescale's."""
    if is_s3(target):
        return
    with translated_errors(run_directory(target)):
        _check_documents(target, Path(run_directory(target)))


def _check_documents(target: str, documents: Path) -> None:
    document_folders.refuse_link_or_mount(documents)
    if not documents.is_dir():
        return
    if not document_folders.is_marked(documents):
        names = _foreign_names(documents, lambda name: is_document(target, f"{run_directory(target)}/{name}"))
        file_names = [path.name for path in documents.iterdir()]
        if names or (file_names and not any(map(_DISTINCTIVE_NAMES.fullmatch, file_names))):
            raise document_folders.not_ours_error(documents, f"other files, such as {min(names or file_names)}")
    for name in document_folders.FOLDERS:
        document_folders.refuse_link_or_mount(documents / name)
    staging = documents / document_folders.STAGING
    if names := _foreign_names(staging, is_staged):
        raise document_folders.not_ours_error(staging, f"other files ({len(names)}), such as {min(names)}")


def mark_documents(target: str) -> None:
    """Check the directory of documents, and mark it as Rescale's if an earlier release left it without a marker."""
    check_documents(target)
    if is_s3(target):
        return
    documents = Path(run_directory(target))
    if documents.is_dir() and not document_folders.is_marked(documents):
        with translated_errors(str(documents)):
            owned.mark(documents)


def _foreign_names(folder: Path, is_ours: Callable[[str], bool]) -> list[str]:
    """Return the names in a directory that are not Rescale's, or that belong to links, directories or devices."""
    names = []
    try:
        for path in folder.iterdir():
            if path.name == document_folders.STAGING or path.name in document_folders.HIDDEN_NAMES:
                continue
            if not is_ours(path.name) or not stat.S_ISREG(path.lstat().st_mode):
                names.append(path.name)
    except FileNotFoundError:  # the directory, or a file in it, was deleted meanwhile
        return []
    return names
