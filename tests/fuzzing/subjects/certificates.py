"""Certificates, unchanged or with a corrected digest."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from atexit import register
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec

from fuzzing.subject import Subject
from rescale.runstate.certificate import read_certificate
from rescale.runstate.places import certificate_place
from rescale.text.errors import IntegrityError, SnapshotError, StoreError, UnsupportedError
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory

_AS_IT_STANDS, _SEALED = range(2)


@cache
def _target_path() -> str:
    folder = tempfile.mkdtemp(prefix="rescale-fuzzing-")
    register(shutil.rmtree, folder, ignore_errors=True)
    target = f"{folder}/target"
    Path(f"{target}.rescale").mkdir()
    return target


def _seeds() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("2-clicks", "2-rocksdb-native"):
            plan = plan_rescale(directory(name), f"{folder}/{name}", ["3"])
            execute_without_spark(plan)
            certificate = Path(certificate_place(plan.target)).read_bytes()
            yield bytes((_AS_IT_STANDS,)) + certificate
            yield bytes((_SEALED,)) + certificate


def _sealed(data: bytes) -> bytes:
    """Return the certificate with its right digest, if it is a JSON object."""
    try:
        fields = msgspec.json.decode(data, type=dict)
        fields.pop("document_sha256", None)
        digest = hashlib.sha256(msgspec.json.encode(fields, order="deterministic")).hexdigest()
        return msgspec.json.encode({**fields, "document_sha256": digest})
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return data


def _look(data: bytes) -> None:
    kind, data = data[0] % 2 if data else 0, data[1:]
    certificate_path = Path(certificate_place(_target_path()))
    certificate_path.write_bytes(_sealed(data) if kind == _SEALED else data)
    certificate = read_certificate(_target_path())
    msgspec.json.encode(certificate.document())


SUBJECT = Subject(_seeds, _look, (IntegrityError, SnapshotError, UnsupportedError, StoreError))
