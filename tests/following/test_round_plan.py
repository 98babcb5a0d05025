"""Rounds are possible only if records get new key groups, whether the hash of their keys is known or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.following.round_plan import can_have_rounds, is_light
from support.pipeline import plan_rescale
from support.snapshot_bytes import CUSTOM, keyed_header, keyed_state
from support.written import write_savepoint

HEADER = keyed_header(keyed_state("total"), key=CUSTOM)


@pytest.mark.parametrize(("max_parallelism", "can_have"), [("64", True), ("128", False)])
def test_keys_of_an_unknown_serializer_have_rounds_only_at_another_max_parallelism(
    max_parallelism: str, can_have: bool, tmp_path: Path
) -> None:
    source = write_savepoint(tmp_path / "source", HEADER, {}, 2, 128)
    plan = plan_rescale(source, str(tmp_path / "target"), ["4"], max_parallelism=[max_parallelism])
    assert not plan.key_hashes
    assert can_have_rounds(plan) is can_have
    assert is_light(plan) is not can_have
