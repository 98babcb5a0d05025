"""Fixture of a plan whose result has files, for tests that publish or discard it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescale.plan.plan import Plan
from rescale.storage.locations import join
from support.pipeline import plan_rescale
from support.publishing import SOURCE
from support.s3 import new_home
from support.slow import slow


@pytest.fixture(params=["local", slow("s3")])
def plan(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Return a plan whose result has files: even small state is not inlined in the metadata."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    home = new_home(request.param, request, tmp_path / "home")
    return plan_rescale(SOURCE, join(home, "target"), ["3"])
