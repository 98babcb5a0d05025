"""Every flipped bit in the metadata of a published result is found as long as its certificate lies beside it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.runstate.certificate import Certificate
from rescale.runstate.places import places_of
from rescale.text.errors import IntegrityError, RescaleError
from support import snapshots
from support.edited import edit_operators
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    folder = tmp_path_factory.mktemp("flipped")
    published_plan = plan_rescale(snapshots.directory("2-finished"), str(folder / "target"), ["3"])
    execute_without_spark(published_plan)
    return published_plan


def validate(plan: Plan) -> Certificate:
    return validate_published(plan.source, plan.target, InProcessTasks())


@pytest.mark.parametrize("flip_count", [60, slow(300)])
def test_flipped_bits_in_metadata_are_found(plan: Plan, flip_count: int) -> None:
    metadata = Path(places_of(plan).metadata)
    original = metadata.read_bytes()
    missed_positions = []
    try:
        for position in range(0, len(original), max(1, len(original) // flip_count)):
            metadata.write_bytes(
                original[:position] + bytes([original[position] ^ 1 << position % 8]) + original[position + 1 :]
            )
            try:
                validate(plan)
            except RescaleError:
                continue
            else:
                missed_positions.append(position)
    finally:
        metadata.write_bytes(original)
    assert missed_positions == []
    assert validate(plan).verdict == "complete"


def test_shape_of_stateless_operator_is_compared(plan: Plan) -> None:
    metadata = Path(places_of(plan).metadata)
    original = metadata.read_bytes()
    changed_ids = []
    try:
        edit_operators(
            metadata.parent,
            lambda entry: (
                entry
                if any(subtask.state for subtask in entry.subtasks) or entry.max_parallelism == 1
                else changed_ids.append(entry.operator_id) or replace(entry, max_parallelism=2176)
            ),
        )
        assert changed_ids
        with pytest.raises(IntegrityError, match="does not have the certified shape") as caught:
            validate(plan)
        assert "2176" in str(caught.value.found)
    finally:
        metadata.write_bytes(original)


def test_validation_without_certificate_says_what_was_not_compared(plan: Plan) -> None:
    assert "no certificate lies beside" not in str(validate(plan).does_not_prove)
    certificate = Path(places_of(plan).certificate)
    moved_certificate = certificate.rename(certificate.with_name("away"))
    try:
        assert "no certificate lies beside" in str(validate(plan).does_not_prove)
    finally:
        moved_certificate.rename(certificate)


def test_validation_of_local_files_says_that_size_and_time_were_compared(plan: Plan) -> None:
    assert "kept its size and modification time" in str(validate(plan).does_not_prove)
