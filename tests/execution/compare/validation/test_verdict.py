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
PROOF_SENTENCES = {
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
DISCLAIMERS = {
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
RECORDS_PROOF = replace(PROOF, records=CertifiedRecords(1, None, None, 1, {}))
CHECKSUMS_PROOF = replace(PROOF, checksums=CertifiedChecksums(("CRC32C",), 7))
REFERRED_PROOF, COPIED_PROOF = (replace(PROOF, directories=CertifiedDirectories(1, 0, n, 1 - n, 0)) for n in (1, 0))


def operator_with_directories(parallelism: int) -> Operator:
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


def snapshot_with_file(
    folder: Path, compared: Operator, *, local: bool = False, elsewhere: Path | None = None
) -> Snapshot:
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
    source = snapshot_with_file(folder / "source", old or operator("op"), local=local)
    result = snapshot_with_file(
        folder / "result", new or operator("op"), local=True, elsewhere=folder / "source" if elsewhere else None
    )
    return certificate_of(
        source, result, proofs or (PROOF,), plan, is_metadata_checked=metadata_checked, surgery=surgery
    )


def sentence_names(text: str | None, sentences: Mapping[str, str]) -> list[str]:
    return [name for name, sentence in sentences.items() if sentence in (text or "")]


@pytest.mark.parametrize(
    ("options", "sentences", "disclaimers"),
    [
        ({}, ["all"], []),
        ({"metadata_checked": False}, ["all"], ["unbound"]),
        ({"local": True}, ["all"], ["local files"]),
        ({"elsewhere": True}, ["all"], ["the source stays"]),
        ({"proofs": [RECORDS_PROOF]}, ["all", "records"], ["rules"]),
        ({"proofs": [CHECKSUMS_PROOF]}, ["all", "the rest", "checksums"], ["stored sums"]),
        (
            {"proofs": [REFERRED_PROOF], "old": operator_with_directories(2), "new": operator_with_directories(3)},
            ["all", "the rest", "files"],
            ["rows by files", "files referred to"],
        ),
        (
            {"proofs": [COPIED_PROOF], "old": operator_with_directories(2), "new": operator_with_directories(3)},
            ["all", "the rest", "files"],
            ["rows by files"],
        ),
        (
            {"proofs": [COPIED_PROOF], "old": operator_with_directories(2), "new": operator_with_directories(2)},
            ["all", "the rest", "files"],
            ["rows of the unchanged"],
        ),
        (
            {"old": operator_with_directories(2), "new": operator_with_directories(2)},
            ["all"],
            ["rows of the unchanged"],
        ),
        ({"old": operator_with_directories(2), "new": operator_with_directories(3)}, ["all"], []),
    ],
)
def test_certificate_says_what_was_compared_and_what_was_not(
    options: dict[str, Any], sentences: list[str], disclaimers: list[str], tmp_path: Path
) -> None:
    proofs, other_options = (
        options.get("proofs", [PROOF]),
        {name: value for name, value in options.items() if name != "proofs"},
    )
    certified = certificate(tmp_path, *proofs, **other_options)
    assert sentence_names(certified.proves, PROOF_SENTENCES) == sentences
    assert EXCEPT not in certified.proves
    assert sentence_names(certified.does_not_prove, DISCLAIMERS) == disclaimers
    assert (certified.does_not_prove is None) is (not disclaimers)


def test_sentence_is_given_if_it_holds_for_one_of_several_operators(tmp_path: Path) -> None:
    source, result = (
        replace(
            snapshot_with_file(tmp_path / name, operator("op"), local=name == "result"),
            operators=(operator("a"), operator_with_directories(parallelism), operator("b")),
        )
        for name, parallelism in (("source", 2), ("result", 3))
    )
    certified = certificate_of(
        source, result, [RECORDS_PROOF, REFERRED_PROOF, CHECKSUMS_PROOF], None, is_metadata_checked=True
    )
    assert sentence_names(certified.proves, PROOF_SENTENCES) == ["all", "the rest", "files", "checksums", "records"]
    assert sentence_names(certified.does_not_prove, DISCLAIMERS) == [
        "rows by files",
        "files referred to",
        "stored sums",
        "rules",
    ]
    assert (certified.proof, certified.bytes) == (Proof.FILES, 21)


def test_sentence_is_given_if_it_holds_for_one_of_several_directories_or_files(tmp_path: Path) -> None:
    source, result = (
        replace(
            snapshot_with_file(tmp_path / name, operator("op"), local=name == "result"),
            operators=(operator("a"), operator_with_directories(2), operator("b")),
        )
        for name in ("source", "result")
    )
    certified = certificate_of(source, result, [PROOF] * 3, None, is_metadata_checked=True)
    assert sentence_names(certified.does_not_prove, DISCLAIMERS) == ["rows of the unchanged"]
    uri = source.files[1][0]
    pin = open_store(uri).stat(uri)
    assert pin is not None
    with_reference = replace(result, files=(*result.files, (uri, pin)))
    certified = certificate_of(source, with_reference, [PROOF] * 3, None, is_metadata_checked=True)
    assert sentence_names(certified.does_not_prove, DISCLAIMERS) == ["rows of the unchanged", "the source stays"]


CHANGE = KafkaChange("0" * 32, "op", "KafkaSource", ())


@pytest.mark.parametrize(
    ("surgery", "sentences"),
    [
        (Surgery(renamed=("one",)), ["renamed"]),  # type: ignore[arg-type]
        (Surgery(dropped=("one",)), ["dropped"]),  # type: ignore[arg-type]
        (Surgery(dropped_states=("one",)), ["dropped states"]),  # type: ignore[arg-type]
        (Surgery(kafka=(CHANGE,)), ["kafka"]),
        (Surgery(kafka=(CHANGE, replace(CHANGE, becomes_source=True))), ["kafka", "sources"]),
    ],
)
def test_certificate_names_the_declared_differences(surgery: Surgery, sentences: list[str], tmp_path: Path) -> None:
    certified = certificate(tmp_path, surgery=surgery)
    assert sentence_names(certified.proves, PROOF_SENTENCES) == ["all", *sentences]
    assert certified.proves.startswith(EXCEPT) is (sentences != ["renamed"])
    assert certified.surgery == surgery


CHANGES_PROOF = replace(PROOF, changes=CertifiedChanges(written=2, deleted=1, files_of_base=3))


def test_proof_by_changes_mentions_its_base(tmp_path: Path) -> None:
    certified, without_base = certificate(tmp_path, CHANGES_PROOF), certificate(tmp_path)
    assert "base" in certified.proves
    assert "base" in (certified.does_not_prove or "")
    assert "base" not in f"{without_base.proves} {without_base.does_not_prove}"


def test_result_that_refers_to_its_base_depends_on_it(tmp_path: Path) -> None:
    uri = str(tmp_path / "source" / "state")
    plan = SimpleNamespace(digest="", warnings=(), continued=None, base_files_referred_to={uri: Pin(5)})
    certified = certificate(tmp_path, CHANGES_PROOF, plan=plan, elsewhere=True)
    assert sentence_names(certified.does_not_prove, DISCLAIMERS) == ["the base stays"]
    assert "no_claim" in certified.start


@pytest.mark.parametrize(
    ("proof", "expected"),
    [
        (PROOF, Proof.RECORDS),
        (RECORDS_PROOF, Proof.RECORDS),
        (CHECKSUMS_PROOF, Proof.FILES),
        (REFERRED_PROOF, Proof.FILES),
        (CHANGES_PROOF, Proof.CHANGES),
    ],
)
def test_certificate_says_by_what_it_was_proven(proof: CertifiedOperator, expected: Proof, tmp_path: Path) -> None:
    assert certificate(tmp_path, proof).proof is expected


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
    start_command = certificate(tmp_path, replace(PROOF, max_parallelism=256)).start
    assert "256" in start_command
    assert "max-parallelism" not in certificate(tmp_path).start
