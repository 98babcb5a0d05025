"""A certificate that was damaged or edited is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.runstate.certificate import (
    Certificate,
    CertifiedOperator,
    CertifiedRecords,
    CertifiedState,
    certificate_beside,
    certificate_for,
    read_certificate,
)
from rescale.runstate.certified_files import CertifiedFile
from rescale.runstate.places import certificate_place
from rescale.text.errors import IntegrityError, RequestError
from support import snapshots
from support.pipeline import plan_rescale

CERTIFICATE = Certificate(
    verdict="complete",
    proves="that all is there",
    does_not_prove=None,
    digests="sums",
    source="/source",
    source_metadata_sha256="1" * 64,
    target="/target",
    candidate_sha256="2" * 64,
    plan="3" * 64,
    warnings=("a warning → said",),
    bytes=12,
    operators=(
        CertifiedOperator(
            "4" * 32, "café", 3, 128, 128, 4, 3, 12, "5" * 32,
            CertifiedRecords(7, "int", "known", 6, {"count": CertifiedState(7, "6" * 32)}),
        ),
        CertifiedOperator("7" * 32, "source", 3, 128, 0, 0, 0, 0, "0" * 32, None),
    ),
    files=(CertifiedFile("state", 12, "e1", None), CertifiedFile("more", 1, None, 7)),
    start="flink run",
)  # fmt: skip
FIELDS = msgspec.to_builtins(CERTIFICATE.document())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "target"


def put(target: Path, document: bytes) -> Path:
    path = Path(certificate_place(str(target)))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(document)
    return path


def test_certificate_is_read_as_it_was_written(target: Path) -> None:
    put(target, json.dumps(FIELDS, indent=2).encode())
    assert read_certificate(str(target)) == CERTIFICATE


def test_digest_of_certificate_is_that_of_its_compact_json_with_sorted_keys() -> None:
    document = {**FIELDS}
    digest = document.pop("document_sha256")
    compact_json = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert digest == hashlib.sha256(compact_json.encode()).hexdigest()


def test_missing_certificate_is_a_request_error(target: Path) -> None:
    with pytest.raises(RequestError, match="no certificate") as caught:
        read_certificate(str(target))
    assert "a published result" in str(caught.value.expected)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:100],
        lambda data: b"\xff" + data,
        lambda _: b"[]",
        lambda _: b"{}",
        lambda data: data.replace(b'"plan"', b'"plam"'),
        lambda data: data.replace(b'"complete"', b'"complexe"'),
        lambda data: data.replace(b'"records": 7', b'"records": 8'),
        lambda data: data.replace(b'"document_sha256"', b'"other"'),
        lambda data: data.replace("café".encode(), b"caf\xe9"),
    ],
)
def test_damaged_certificate_is_refused_with_its_path(damage: Callable[[bytes], bytes], target: Path) -> None:
    document = json.dumps(FIELDS, indent=2, ensure_ascii=False).encode()
    assert damage(document) != document
    path = put(target, damage(document))
    with pytest.raises(IntegrityError) as caught:
        read_certificate(str(target))
    assert caught.value.path == str(path)
    assert "is published, move the certificate away, then compare" in str(caught.value.advice)


def test_certificate_with_unknown_verdict_and_right_digest_is_refused(target: Path) -> None:
    put(target, json.dumps(msgspec.to_builtins(replace(CERTIFICATE, verdict="complexe").document())).encode())
    with pytest.raises(IntegrityError):
        read_certificate(str(target))


def test_certificate_beside_a_result_is_none_where_there_is_no_file(target: Path) -> None:
    assert certificate_beside(str(target)) is None
    put(target, json.dumps(FIELDS).encode())
    assert certificate_beside(str(target)) == CERTIFICATE
    put(target, b"{}")
    with pytest.raises(IntegrityError):
        certificate_beside(str(target))


def test_certificate_of_another_plan_is_refused(target: Path) -> None:
    plan = plan_rescale(snapshots.directory("2-finished"), str(target), ["3"])
    put(target, json.dumps(FIELDS).encode())
    with pytest.raises(IntegrityError, match="belongs to another plan") as caught:
        certificate_for(plan)
    assert (caught.value.expected, caught.value.found) == (plan.digest, CERTIFICATE.plan)
    own_certificate = replace(CERTIFICATE, plan=plan.digest)
    put(target, json.dumps(msgspec.to_builtins(own_certificate.document())).encode())
    assert certificate_for(plan) == own_certificate


@given(st.data())
def test_certificate_with_one_flipped_bit_is_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Flips in white space and escapes are left out, because they might not change a value."""
    target = tmp_path_factory.getbasetemp() / "flipped"
    document = bytearray(json.dumps(FIELDS, separators=(",", ":"), ensure_ascii=False).encode())
    index = data.draw(st.integers(0, len(document) - 1))
    document[index] ^= 1 << data.draw(st.integers(0, 7))
    put(target, bytes(document))
    with pytest.raises(IntegrityError):
        read_certificate(str(target))
