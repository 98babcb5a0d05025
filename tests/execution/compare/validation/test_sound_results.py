"""Sound results pass, with and without their plan."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rescale.execution.steps import validate_coverage, validate_published
from rescale.runstate.publication import publish
from rescale.text.errors import IntegrityError, RequestError
from support import snapshots
from support.finished import HEAP, KEYED_SLOT, SOURCE, ResultOf
from support.pipeline import claimed_plan, move, plan_rescale, shared_processes
from support.readme import fields


@pytest.mark.parametrize("name", [*KEYED_SLOT, SOURCE])
def test_untouched_result_passes(name: str, result_of: ResultOf) -> None:
    proofs = result_of(name).validate()
    source = snapshots.opened(name)
    assert [proof.operator_id for proof in proofs] == [operator.operator_id for operator in source.operators]
    assert sum(proof.key_groups + proof.elements for proof in proofs) > 0


@pytest.mark.slow
def test_published_result_is_validated_without_its_plan(tmp_path: Path) -> None:
    target = tmp_path / "target"
    plan = plan_rescale(snapshots.directory(HEAP), str(target), ["3"])
    move(plan)
    certificate = validate_coverage(plan, shared_processes())
    publish(plan)
    second_certificate = validate_published(plan.source, str(target), shared_processes())
    assert second_certificate.candidate_sha256 == certificate.candidate_sha256
    assert msgspec.to_builtins(second_certificate.document()).keys() == fields("certificate")
    assert second_certificate.operators == certificate.operators
    moved_target = tmp_path / "moved"
    target.rename(moved_target)
    assert validate_published(plan.source, str(moved_target), shared_processes()).operators == certificate.operators
    metadata = moved_target / "_metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"\0\0\0\x03", b"\0\0\0\x02", 1))
    with pytest.raises(IntegrityError) as caught:
        validate_published(plan.source, str(moved_target), shared_processes())
    assert "nothing was published" not in str(caught.value)


def test_unfinished_result_is_not_validated(tmp_path: Path) -> None:
    plan = claimed_plan(snapshots.directory("2-windows"), str(tmp_path / "target"), ["3"])
    with pytest.raises(RequestError, match="not all state has been moved"):
        validate_coverage(plan, shared_processes())
