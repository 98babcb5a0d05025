"""Sentences of a certificate by how each operator was compared, on proofs that are made up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rescale.execution.compare.validation.verdict import certificate_of
from rescale.flink.key_groups import key_group_range
from rescale.plan.continuation import ContinuedResult
from rescale.plan.proof import Proof
from rescale.runstate.certificate import (
    Certificate,
    CertifiedChanges,
    CertifiedChecksums,
    CertifiedDirectories,
    CertifiedOperator,
    CertifiedRecords,
)
from rescale.snapshot.kafka.changes import KafkaChange
from rescale.snapshot.keyed_state import Database, DatabaseFile
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery
from rescale.storage.contract import Pin
from rescale.storage.store import open_store
from support.synthetic import operator, snapshot

EXCEPT = "except for the declared differences, "
SAYS = {
    "all": "every key group, list element, union element and broadcast copy of the source was read",
    "the rest": "for all other state, every key group",
    "files": "every SST file of the source that may have rows of a subtask is in the subtask's directory",
    "checksums": "computed by the store itself",
    "records": "every record whose key has a given hash rule lies in the key group of that hash",
    "renamed": "declared as renamed",
    "dropped": "an operator that was declared as dropped has no state in the result",
    "dropped states": "a state that was declared as dropped is not in the result",
    "kafka": "hold the declared Kafka offsets",
    "sources": "was declared to become a KafkaSource",
}
DOES_NOT = {
    "rows by files": "in RocksDB directories that were compared by their files, no row was read",
    "rows of the unchanged": "in RocksDB directories that stay unchanged",
    "files referred to": "files that the result refers to were not read",
    "stored sums": "state that was compared by checksums of its store was not read",
    "rules": "a hash rule that is wrong for only k keys",
    "local files": "kept its size and modification time",
    "unbound": "no certificate lies beside the result",
    "the source stays": "keep the source unchanged until",
    "the base stays": "keep the base unchanged as long as the result",
}

PROOF = CertifiedOperator("0" * 32, "op", 2, 128, 4, 5, 6, 7, "a" * 32, None)
RECORDS = replace(PROOF, records=CertifiedRecords(1, None, None, 1, {}))
CHECKSUMS = replace(PROOF, checksums=CertifiedChecksums(("CRC32C",), 7))
REFERRED, COPIED = (replace(PROOF, directories=CertifiedDirectories(1, 0, n, 1 - n, 0)) for n in (1, 0))


def in_directories(parallelism: int) -> Operator:
    databases = tuple(
        Database(
            i,
            key_group_range(128, parallelism, i),
            Extent(0, 0, 0),
            b"",
            None,
            (DatabaseFile("1.sst", Extent(0, 0, 0)),),
        )
        for i in range(parallelism)
    )
    return operator("op", parallelism, databases=databases)


def side(folder: Path, compared: Operator, *, local: bool = False, elsewhere: Path | None = None) -> Snapshot:
    """Return a snapshot with one file beside `_metadata` or elsewhere; only a `local` one has times of modification."""
    folder.mkdir(exist_ok=True)
    path = (elsewhere or folder) / "state"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"state")
    pin = open_store(str(path)).stat(str(path))
    assert pin is not None
    pins = [("_metadata", replace(pin, mtime_ns=None)), (str(path), pin if local else replace(pin, mtime_ns=None))]
    return replace(snapshot(compared), directory=str(folder), files=tuple(pins))


def certificate(
    folder: Path,
    *proofs: CertifiedOperator,
    old: Operator | None = None,
    new: Operator | None = None,
    metadata_checked: bool = True,
    surgery: Surgery = NO_SURGERY,
    plan: Any = None,
    local: bool = False,
    elsewhere: bool = False,
) -> Certificate:
    source = side(folder / "source", old or operator("op"), local=local)
    result = side(
        folder / "result", new or operator("op"), local=True, elsewhere=folder / "source" if elsewhere else None
    )
    return certificate_of(
        source, result, proofs or (PROOF,), plan, is_metadata_checked=metadata_checked, surgery=surgery
    )


def said_of(text: str | None, sentences: Mapping[str, str]) -> list[str]:
    return [name for name, sentence in sentences.items() if sentence in (text or "")]


@pytest.mark.parametrize(
    ("how", "says", "does_not"),
    [
        ({}, ["all"], []),
        ({"metadata_checked": False}, ["all"], ["unbound"]),
        ({"local": True}, ["all"], ["local files"]),
        ({"elsewhere": True}, ["all"], ["the source stays"]),
        ({"proofs": [RECORDS]}, ["all", "records"], ["rules"]),
        ({"proofs": [CHECKSUMS]}, ["all", "the rest", "checksums"], ["stored sums"]),
        (
            {"proofs": [REFERRED], "old": in_directories(2), "new": in_directories(3)},
            ["all", "the rest", "files"],
            ["rows by files", "files referred to"],
        ),
        (
            {"proofs": [COPIED], "old": in_directories(2), "new": in_directories(3)},
            ["all", "the rest", "files"],
            ["rows by files"],
        ),
        (
            {"proofs": [COPIED], "old": in_directories(2), "new": in_directories(2)},
            ["all", "the rest", "files"],
            ["rows of the unchanged"],
        ),
        ({"old": in_directories(2), "new": in_directories(2)}, ["all"], ["rows of the unchanged"]),
        ({"old": in_directories(2), "new": in_directories(3)}, ["all"], []),
    ],
)
def test_certificate_says_what_was_compared_and_what_was_not(
    how: dict[str, Any], says: list[str], does_not: list[str], tmp_path: Path
) -> None:
    proofs, others = how.get("proofs", [PROOF]), {name: value for name, value in how.items() if name != "proofs"}
    certified = certificate(tmp_path, *proofs, **others)
    assert said_of(certified.proves, SAYS) == says
    assert EXCEPT not in certified.proves
    assert said_of(certified.does_not_prove, DOES_NOT) == does_not
    assert (certified.does_not_prove is None) is (not does_not)


def test_sentence_is_given_if_it_holds_for_one_of_several_operators(tmp_path: Path) -> None:
    source, result = (
        replace(
            side(tmp_path / name, operator("op"), local=name == "result"),
            operators=(operator("a"), in_directories(of), operator("b")),
        )
        for name, of in (("source", 2), ("result", 3))
    )
    certified = certificate_of(source, result, [RECORDS, REFERRED, CHECKSUMS], None, is_metadata_checked=True)
    assert said_of(certified.proves, SAYS) == ["all", "the rest", "files", "checksums", "records"]
    assert said_of(certified.does_not_prove, DOES_NOT) == ["rows by files", "files referred to", "stored sums", "rules"]
    assert (certified.proof, certified.bytes) == (Proof.FILES, 21)


def test_sentence_is_given_if_it_holds_for_one_of_several_directories_or_files(tmp_path: Path) -> None:
    source, result = (
        replace(
            side(tmp_path / name, operator("op"), local=name == "result"),
            operators=(operator("a"), in_directories(2), operator("b")),
        )
        for name in ("source", "result")
    )
    certified = certificate_of(source, result, [PROOF] * 3, None, is_metadata_checked=True)
    assert said_of(certified.does_not_prove, DOES_NOT) == ["rows of the unchanged"]
    uri = source.files[1][0]
    pin = open_store(uri).stat(uri)
    assert pin is not None
    refers = replace(result, files=(*result.files, (uri, pin)))
    certified = certificate_of(source, refers, [PROOF] * 3, None, is_metadata_checked=True)
    assert said_of(certified.does_not_prove, DOES_NOT) == ["rows of the unchanged", "the source stays"]


CHANGE = KafkaChange("0" * 32, "op", "KafkaSource", ())


@pytest.mark.parametrize(
    ("surgery", "says"),
    [
        (Surgery(renamed=("one",)), ["renamed"]),  # type: ignore[arg-type]
        (Surgery(dropped=("one",)), ["dropped"]),  # type: ignore[arg-type]
        (Surgery(dropped_states=("one",)), ["dropped states"]),  # type: ignore[arg-type]
        (Surgery(kafka=(CHANGE,)), ["kafka"]),
        (Surgery(kafka=(CHANGE, replace(CHANGE, becomes_source=True))), ["kafka", "sources"]),
    ],
)
def test_certificate_names_the_declared_differences(surgery: Surgery, says: list[str], tmp_path: Path) -> None:
    certified = certificate(tmp_path, surgery=surgery)
    assert said_of(certified.proves, SAYS) == ["all", *says]
    assert certified.proves.startswith(EXCEPT) is (says != ["renamed"])
    assert certified.surgery == surgery


CHANGES = replace(PROOF, changes=CertifiedChanges(written=2, deleted=1, files_of_base=3))


def test_proof_by_changes_mentions_its_base(tmp_path: Path) -> None:
    certified, other = certificate(tmp_path, CHANGES), certificate(tmp_path)
    assert "base" in certified.proves
    assert "base" in (certified.does_not_prove or "")
    assert "base" not in f"{other.proves} {other.does_not_prove}"


def test_result_that_refers_to_its_base_depends_on_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "source" / "state")
    plan = SimpleNamespace(digest="", warnings=(), continued=None, base_files_referred_to={uri: Pin(5)})
    certified = certificate(tmp_path, CHANGES, plan=plan, elsewhere=True)
    assert said_of(certified.does_not_prove, DOES_NOT) == ["the base stays"]
    assert "no_claim" in certified.start


@pytest.mark.parametrize(
    ("proof", "depth"),
    [
        (PROOF, Proof.RECORDS),
        (RECORDS, Proof.RECORDS),
        (CHECKSUMS, Proof.FILES),
        (REFERRED, Proof.FILES),
        (CHANGES, Proof.CHANGES),
    ],
)
def test_certificate_says_by_what_it_was_proven(proof: CertifiedOperator, depth: Proof, tmp_path: Path) -> None:
    assert certificate(tmp_path, proof).proof is depth


def test_certificate_names_plan_source_target_and_files(tmp_path: Path) -> None:
    base = ContinuedResult("/base", "e" * 64, "d" * 64, "/earlier")
    plan = SimpleNamespace(digest="f" * 64, warnings=("a warning",), continued=base, base_files_referred_to={})
    certified = certificate(tmp_path, plan=plan, new=operator("op", 3))
    assert (certified.plan, certified.warnings, certified.continues) == (plan.digest, plan.warnings, base)
    assert (certified.source, certified.target) == (str(tmp_path / "source"), str(tmp_path / "result"))
    assert certified.source_metadata_sha256 == certified.candidate_sha256 == snapshot().metadata_sha256
    assert (certified.verdict, certified.bytes, certified.operators) == ("complete", 7, (PROOF,))
    assert [file.name for file in certified.files] == ["state"]
    assert (certificate(tmp_path).plan, certificate(tmp_path).warnings) == (None, ())
    assert str(tmp_path / "result") in certified.start
    changed = certificate(tmp_path, replace(PROOF, max_parallelism=256)).start
    assert "256" in changed
    assert "max-parallelism" not in certificate(tmp_path).start
