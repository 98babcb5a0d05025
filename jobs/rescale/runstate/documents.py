"""Reads and writes the documents of a run beside its target; the first of them is the plan."""

from __future__ import annotations

import hashlib
import re
from typing import Any, TypeVar

import msgspec

from rescale.plan.plan import Plan, plan_from_json, plan_to_json
from rescale.runstate.places import places_of
from rescale.storage.files.document_folders import DOCUMENTS_SUFFIX
from rescale.storage.locations import join, name, parent
from rescale.storage.rereads import DOCUMENTS, read_again_on_failure
from rescale.storage.store import exists, open_store
from rescale.text.errors import DECODE_ERRORS, RequestError, SnapshotError

T = TypeVar("T")

_PLAN_NAME = re.compile(r"plan-([0-9a-f]{64})\.json")

MOST_DOCUMENT_BYTES = 1 << 30
"""Largest document of Rescale that is read, in bytes."""


def read_document(uri: str) -> bytes:
    """Return the bytes of a document. Raises `SnapshotError` if it is larger than `MOST_DOCUMENT_BYTES`."""
    return open_store(uri).read_all(uri, MOST_DOCUMENT_BYTES)[0]


def document_sha256(uri: str) -> str:
    """Return the SHA-256 (hex) of a document."""
    return hashlib.sha256(read_document(uri)).hexdigest()


def read_json(uri: str, document_type: type[T]) -> T:
    """Return the JSON document at `uri` as a value of this type. Raises `RequestError` if it has another type."""
    try:
        return msgspec.json.decode(read_document(uri), type=document_type)
    except DECODE_ERRORS as error:
        raise RequestError(
            f"this is not a document ({document_type.__name__}) that this version of Rescale wrote",
            path=uri,
            found=error,
            advice="another version of Rescale wrote it, or it was edited: name another target",
        ) from None


def put_document(uri: str, data: bytes) -> None:
    """Write a document; an earlier one is replaced."""
    open_store(uri).put(uri, data)


def store_plan(plan: Plan) -> None:
    """Write the plan beside its target, where `load_plan` reads it. A target may have plans of several requests."""
    put_document(places_of(plan).plan, plan_to_json(plan))


def refuse_unsafe_result(uri: str) -> None:
    """Raise `RequestError` if the result document of a step would replace another program's file, or be in a snapshot.

    In the directory beside a target, a file with the name of a result document is always Rescale's own, so nothing is
    checked there.
    """
    folder = parent(uri)
    if folder.endswith(DOCUMENTS_SUFFIX):
        return
    metadata = join(folder, "_metadata")
    if name(uri) == "_metadata" or exists(metadata):
        raise RequestError(
            "the result document of a step must not be in a snapshot",
            path=uri,
            expected="a file in a directory of its own",
            found=metadata,
            advice="name another file for the result document",
        )
    if exists(uri) and not _is_result_document(read_document(uri)):
        raise RequestError(
            "the result document of a step would overwrite another file",
            path=uri,
            expected="no file yet, or the result document of a step",
            advice="name another file for the result document",
        )


def _is_result_document(data: bytes) -> bool:
    try:
        document = msgspec.json.decode(data, type=dict[str, Any])
    except DECODE_ERRORS:
        return False
    return document.get("status") in ("done", "failed")


def load_plan(uri: str) -> Plan:
    """Return the plan in a file.

    Raises `SnapshotError` if the file is not a plan, or not the plan that its name promises. Raises `StoreError`, which
    is worth a retry, if a second read does not confirm that error.
    """
    return read_again_on_failure(lambda: _read_plan(uri), DOCUMENTS)


def _read_plan(uri: str) -> Plan:
    """Read the plan. Raises `SnapshotError` if its digest is not the one in the file's name, as after a misread."""
    plan, name_match = plan_from_json(read_document(uri), uri), _PLAN_NAME.fullmatch(name(uri))
    if name_match is not None and name_match[1] != plan.digest:
        raise SnapshotError(
            "the plan was changed after it was written: its digest is not the one in its name",
            path=uri,
            expected=name_match[1],
            found=plan.digest,
            advice="plan again: the file was damaged or edited",
        )
    return plan
