"""The share of a proof by files is known before anything moves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rescale.plan.proof import Proof
from rescale.plan.proof_scope import proof_sentence
from rescale.text.errors import RequestError
from support.pipeline import plan_rescale
from support.snapshots import directory


@pytest.mark.parametrize(
    ("name", "shape", "part"),
    [
        ("2-rocksdb-native", {"parallelism": ["3"], "files": "refer"}, "3 RocksDB directories are compared by their"),
        (
            "2-rocksdb-native",
            {"parallelism": ["1"]},
            "1 RocksDB directory is compared by its files, without reading its rows",
        ),
        ("2-rocksdb-native", {}, "2 RocksDB directories are compared by their files, without reading their rows"),
        ("2-rocksdb-native", {"parallelism": ["3"]}, "; 2 with files that RocksDB rewrites, by all records"),
        ("2-rocksdb-2to3", {"parallelism": ["2"]}, "every record is compared"),
    ],
)
def test_proof_by_files_says_what_it_covers(name: str, shape: dict[str, Any], part: str, tmp_path: Path) -> None:
    plan = plan_rescale(directory(name), str(tmp_path / "target"), **shape)
    assert proof_sentence(plan, Proof.RECORDS) is None
    sentence = proof_sentence(plan, Proof.FILES)
    assert sentence is not None
    assert part in sentence


@pytest.mark.parametrize(("inline", "part"), [(False, "by the store's checksums"), (True, "every record")])
def test_key_groups_copied_within_s3_are_proven_by_checksums_unless_inline(
    inline: bool, part: str, tmp_path: Path
) -> None:
    """Small state of a running job may turn out to lie in `_metadata`; this must not end its run."""
    plan = plan_rescale(directory("2-canonical-rocksdb"), str(tmp_path / "target"), ["3"])
    operators = tuple(
        replace(operator, streams=tuple(msgspec.structs.replace(stream, inline=inline) for stream in operator.streams))
        for operator in plan.operators
    )
    sentence = proof_sentence(
        replace(plan, source="s3://state/a", target="s3://state/b", operators=operators), Proof.FILES
    )
    assert sentence is not None
    assert part in sentence


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("2-canonical-rocksdb", {"parallelism": ["3"]}),
        ("2-canonical-rocksdb", {"format": "rocksdb"}),
        ("2-rocksdb-native", {"format": "canonical"}),
        ("2-rocksdb-native", {"max_parallelism": ["64"]}),
        ("2-finished", {"parallelism": ["3"]}),
    ],
)
def test_proof_by_files_is_refused_if_no_state_can_be_proven_by_files(
    name: str, shape: dict[str, Any], tmp_path: Path
) -> None:
    plan = plan_rescale(directory(name), str(tmp_path / "target"), **shape)
    assert proof_sentence(plan, Proof.RECORDS) is None
    with pytest.raises(RequestError, match="no state of this plan can be proven by files") as caught:
        proof_sentence(plan, Proof.FILES)
    assert "--proof" in str(caught.value.advice)
