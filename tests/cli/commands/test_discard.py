"""`rescale discard`: what it removes, keeps and says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from support.commands import Captured, answer
from support.readme import fields
from support.snapshots import directory, opened

SOURCE = directory("1.20-heap-native")


def test_discard_removes_what_a_run_left(capsys: Captured, tmp_path: Path) -> None:
    target = tmp_path / "target"
    plan = make_plan(opened("2-source"), make_request(directory("2-source"), str(target)))
    claim(plan)
    code, document = answer(capsys, "discard", str(target))
    assert code == 0
    assert {Path(uri).name for uri in document["removed"]} == {"claim", f"plan-{plan.digest}.json"}
    assert list(tmp_path.iterdir()) == []
    assert answer(capsys, "discard", str(target)) == (0, {"removed": [], "left": []})
    assert main(["discard", str(target)]) == 0
    assert capsys.readouterr().out.startswith("nothing to remove")
    assert document.keys() == fields("discard")


def test_discard_removes_a_claim_without_its_plan(capsys: Captured, tmp_path: Path) -> None:
    plan = make_plan(opened("2-source"), make_request(directory("2-source"), str(tmp_path / "target")))
    claim(plan)
    Path(places_of(plan).plan).unlink()
    assert answer(capsys, "discard", str(tmp_path / "target"))[0] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["/", "s3://bucket"])
def test_discard_of_a_root_directory_or_bucket_is_refused(capsys: Captured, target: str) -> None:
    code, document = answer(capsys, "discard", target)
    assert (code, document["what"]) == (2, "the target must be a directory of its own")


def test_discard_refuses_a_foreign_directory_beside_the_target(capsys: Captured, tmp_path: Path) -> None:
    savepoint = tmp_path / "target.rescale"
    shutil.copytree(SOURCE, savepoint)
    files_before = sorted(savepoint.iterdir())
    code, document = answer(capsys, "discard", str(tmp_path / "target"))
    assert (code, document["error"], document["path"]) == (2, "RequestError", str(savepoint))
    assert sorted(savepoint.iterdir()) == files_before


def test_discard_keeps_foreign_files_among_the_documents(capsys: Captured, tmp_path: Path) -> None:
    plan = make_plan(opened("2-source"), make_request(directory("2-source"), str(tmp_path / "target")))
    claim(plan)
    notes = tmp_path / "target.rescale" / "notes.txt"
    notes.write_text("mine")
    code, document = answer(capsys, "discard", str(tmp_path / "target"))
    assert (code, document["left"]) == (0, [str(notes)])
    assert answer(capsys, "discard", str(tmp_path / "target")) == (0, {"removed": [], "left": [str(notes)]})
    assert notes.read_text() == "mine"


def test_discard_of_a_published_target_is_refused(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "_metadata").write_bytes(b"published")
    code, document = answer(capsys, "discard", str(tmp_path))
    assert (code, document["error"]) == (2, "RequestError")
    assert (tmp_path / "_metadata").exists()
