"""PostgreSQL counts as missing unless `PATH` leads to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.postgres import programs


def test_programs_are_those_that_the_path_leads_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs() is None
    program = tmp_path / "initdb"
    program.touch(0o755)
    assert programs() == tmp_path
