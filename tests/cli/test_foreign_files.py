"""Commands remove and overwrite only what Rescale made, whatever the names and places of other files."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rescale.cli.main import main
from rescale.storage.files import document_folders
from rescale.storage.files.local_store import LocalStore
from rescale.storage.scratch import ScratchKind
from rescale.text.errors import RequestError
from support.commands import Captured, answer
from support.ground import SHAPE, Ground, interrupted
from support.slow import pairs_in_turn
from support.trees import tree

# Scratch directories


@pytest.mark.parametrize("variable", ["TMPDIR", "SPARK_LOCAL_DIRS"])
@pytest.mark.parametrize("kind", ScratchKind)
def test_savepoint_with_the_name_of_a_scratch_directory_is_kept(
    ground: Ground, kind: ScratchKind, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, str(ground.home))
    monkeypatch.setattr("tempfile.tempdir", None)
    foreign_directory = ground.savepoint(f"{kind}clicks")
    before = tree(foreign_directory)
    assert main(["discard", str(ground.target)]) == 0
    assert tree(foreign_directory) == before


@pytest.mark.slow
def test_run_does_not_remove_its_source_from_the_temporary_directory(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(ground.home))
    monkeypatch.setattr("tempfile.tempdir", None)
    source = ground.savepoint("rescale-database-sp")
    before = tree(source)
    assert main(["run", str(source), "--target", str(ground.target), *SHAPE]) == 0
    assert main(["validate", str(source), str(ground.target)]) == 0
    assert main(["diff", str(source), str(ground.target)]) == 0
    assert tree(source) == before
    assert [path.name for path in ground.home.glob("rescale-*")] == ["rescale-database-sp"]


# The directory beside the target


def _documents_lead_to_the_source(ground: Ground) -> Path:
    ground.documents.symlink_to(ground.source)
    return ground.source


def _documents_lead_to_those_of_another_run(ground: Ground) -> Path:
    interrupted(ground, ground.home / "other")
    ground.documents.symlink_to(ground.home / "other.rescale")
    return ground.home / "other.rescale"


def _documents_lead_to_a_foreign_directory(ground: Ground) -> Path:
    ground.documents.symlink_to(ground.folder("mine", "notes.txt"))
    return ground.home / "mine"


def _documents_lead_to_an_empty_directory(ground: Ground) -> Path:
    ground.documents.symlink_to(ground.folder("mine"))
    return ground.home / "mine"


def _documents_lead_nowhere(ground: Ground) -> Path:
    ground.documents.symlink_to(ground.home / "gone")
    return ground.home


def _documents_are_a_snapshot(ground: Ground) -> Path:
    return ground.savepoint("target.rescale")


def _documents_are_a_foreign_directory(ground: Ground) -> Path:
    return ground.folder("target.rescale", "notes.txt")


def _documents_have_the_names_of_ours(ground: Ground) -> Path:
    return ground.folder("target.rescale", "report.html", "staging/notes.txt")


def _documents_are_the_source_mounted(ground: Ground) -> Path:
    ground.bind(ground.source, ground.documents)
    return ground.source


def _documents_are_a_mount_of_those_of_another_run(ground: Ground) -> Path:
    interrupted(ground, ground.home / "other")
    ground.bind(ground.home / "other.rescale", ground.documents)
    return ground.home / "other.rescale"


def _staging_leads_to_the_source(ground: Ground) -> Path:
    interrupted(ground, ground.target)
    (ground.documents / "staging").symlink_to(ground.source)
    return ground.source


def _staging_leads_to_a_foreign_directory(ground: Ground) -> Path:
    interrupted(ground, ground.target)
    (ground.documents / "staging").symlink_to(ground.folder("mine", "notes.txt", "below/notes.txt"))
    return ground.home / "mine"


def _staging_is_a_foreign_directory(ground: Ground) -> Path:
    interrupted(ground, ground.target)
    return ground.folder("target.rescale/staging", "notes.txt", "below/notes.txt")


def _staging_is_a_mount(ground: Ground) -> Path:
    interrupted(ground, ground.target)
    ground.bind(ground.folder("mine", "notes.txt"), ground.documents / "staging")
    return ground.home / "mine"


ARRANGEMENTS: tuple[Callable[[Ground], Path], ...] = (
    _documents_lead_to_the_source,
    _documents_lead_to_those_of_another_run,
    _documents_lead_to_a_foreign_directory,
    _documents_lead_to_an_empty_directory,
    _documents_lead_nowhere,
    _documents_are_a_snapshot,
    _documents_are_a_foreign_directory,
    _documents_have_the_names_of_ours,
    _documents_are_the_source_mounted,
    _documents_are_a_mount_of_those_of_another_run,
    _staging_leads_to_the_source,
    _staging_leads_to_a_foreign_directory,
    _staging_is_a_foreign_directory,
    _staging_is_a_mount,
)
"""Functions that bring about what their names say, and return the directory that must stay as it is."""


@pytest.mark.parametrize("arrange", ARRANGEMENTS)
@pytest.mark.parametrize("command", ["run", "discard"])
def test_foreign_directory_beside_a_target_is_refused_and_kept(
    ground: Ground, capsys: Captured, arrange: Callable[[Ground], Path], command: str
) -> None:
    foreign_directory = arrange(ground)
    before = tree(foreign_directory), tree(ground.home)
    arguments = (
        [str(ground.source), "--target", str(ground.target), *SHAPE] if command == "run" else [str(ground.target)]
    )
    code, document = answer(capsys, command, *arguments)
    assert (tree(foreign_directory), tree(ground.home)) == before
    assert (code, document["error"]) == (2, "RequestError")
    assert document["path"] in {str(ground.documents), str(ground.documents / "staging")}
    assert document["found"]
    assert document["advice"]


@pytest.mark.parametrize("command", ["run", "discard"])
@pytest.mark.parametrize("is_mount", [True, False])
@pytest.mark.parametrize("folder", document_folders.FOLDERS)
def test_link_or_mount_among_the_documents_is_refused(
    ground: Ground, capsys: Captured, folder: str, *, is_mount: bool, command: str
) -> None:
    interrupted(ground, ground.target)
    (ground.documents / "follower.json").write_text("{}")
    foreign_directory, path = ground.savepoint("mine"), ground.documents / folder
    if is_mount:
        ground.bind(foreign_directory, path)
    else:
        path.symlink_to(foreign_directory)
    before = tree(foreign_directory), tree(ground.home)
    arguments = (
        [str(ground.source), "--target", str(ground.target), *SHAPE] if command == "run" else [str(ground.target)]
    )
    code, document = answer(capsys, command, *arguments)
    assert (tree(foreign_directory), tree(ground.home)) == before
    assert (code, document["error"], document["path"]) == (2, "RequestError", str(path))


@pytest.mark.parametrize("folder", [document_folders.PINS, document_folders.ROUNDS, document_folders.ORDERS])
def test_directories_of_a_follower_are_foreign_without_a_follower(
    ground: Ground, capsys: Captured, folder: str
) -> None:
    interrupted(ground, ground.target)
    notes = ground.folder(f"target.rescale/{folder}", "chk-1/notes.txt") / "chk-1" / "notes.txt"
    code, document = answer(capsys, "discard", str(ground.target))
    assert (code, document["left"]) == (0, [str(notes)])
    assert notes.exists()


def test_links_below_the_documents_are_not_followed(ground: Ground) -> None:
    """A follower writes files below the documents, and removes those that it no longer needs."""
    interrupted(ground, ground.target)
    foreign_directory, pins = ground.savepoint("mine"), ground.documents / document_folders.PINS
    pins.mkdir()
    (pins / "chk-1").symlink_to(foreign_directory)
    before, store = tree(foreign_directory), LocalStore()
    with pytest.raises(RequestError):
        store.put(str(pins / "chk-1" / "_metadata"), b"a pin")
    with pytest.raises(RequestError):
        store.delete([str(pins / "chk-1" / "_metadata")])
    assert tree(foreign_directory) == before


@pytest.mark.parametrize("put", [shutil.copytree, shutil.move])
def test_documents_of_another_target_are_not_discarded(
    ground: Ground, capsys: Captured, put: Callable[[Path, Path], object]
) -> None:
    """The marker in the directory says that Rescale made the documents, but for another target."""
    assert ground.run(ground.home / "other") == 0
    capsys.readouterr()
    put(ground.home / "other.rescale", ground.documents)
    before = tree(ground.home)
    code, document = answer(capsys, "discard", str(ground.target))
    assert (code, document["error"], document["path"]) == (2, "RequestError", str(ground.documents))
    assert document["found"] == str(ground.home / "other")
    assert tree(ground.home) == before


def test_target_is_discarded_by_each_of_its_names(ground: Ground) -> None:
    (ground.home / "link").symlink_to(ground.home)
    ground.bind(ground.home, ground.home.parent / "mounted")
    for parent in (ground.home / "link", ground.home.parent / "mounted"):
        interrupted(ground, ground.target)
        assert main(["discard", str(parent / "target")]) == 0
        assert not ground.documents.exists()


# Results and reports


@pytest.mark.parametrize(
    ("name", "step"),
    pairs_in_turn(["_metadata", "result.json", "state"], ["diff_snapshots", "reshuffle_keyed_state"], quick=1),
)
def test_result_document_replaces_no_foreign_file_and_lies_in_no_snapshot(ground: Ground, name: str, step: str) -> None:
    foreign_directory = ground.savepoint("others")
    (foreign_directory / "state").write_bytes(b"state")
    paths = [foreign_directory / name, ground.folder("mine", "state", "result.json", "_metadata") / name]
    before = tree(ground.home)
    for path in paths:
        step_arguments = ["--plan", str(ground.home / "plan")] if step != "diff_snapshots" else []
        step_arguments = step_arguments or ["--a", str(ground.source), "--b", str(foreign_directory)]
        command = [sys.executable, "-m", step, *step_arguments, "--result", str(path), "--master", "local[2]"]
        assert subprocess.run(command, check=False, capture_output=True).returncode == 2
    assert tree(ground.home) == before


def test_report_replaces_no_foreign_page_and_lies_in_no_snapshot(ground: Ground) -> None:
    foreign_directory = ground.savepoint("others")
    page = ground.folder("mine") / "index.html"
    page.write_text("<!doctype html><title>The only copy</title>")
    link = ground.home / "link"
    link.symlink_to(foreign_directory / "_metadata")
    before = tree(ground.home)
    for path in (page, foreign_directory / "report.html", foreign_directory / "_metadata", link):
        assert main(["report", str(ground.source), "-o", str(path)]) == 2
    assert tree(ground.home) == before


# Directories that existed before the run


def test_discard_keeps_an_empty_target_directory_that_existed_before_the_run(ground: Ground) -> None:
    ground.target.mkdir()
    before = tree(ground.home).keys()
    interrupted(ground, ground.target)
    (plan,) = ground.documents.glob("plan-*.json")
    command = [sys.executable, "-m", "reshuffle_keyed_state", "--plan", str(plan), "--master", "local[2]"]
    result = ground.documents / "result-reshuffle_keyed_state.json"
    subprocess.run([*command, "--result", str(result)], check=True, capture_output=True)
    assert main(["discard", str(ground.target)]) == 0
    assert tree(ground.home).keys() == before


def test_documents_of_an_earlier_version_are_recognised_by_their_content(ground: Ground) -> None:
    """Earlier versions left no marker."""
    interrupted(ground, ground.target)
    for marker in ground.documents.glob(".rescale*"):
        marker.unlink()
    assert ground.run() == 0
    assert document_folders.is_marked(ground.documents)


def test_foreign_files_around_a_run_stay_unchanged(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names resemble those of Rescale's files."""
    monkeypatch.setenv("TMPDIR", str(ground.home))
    monkeypatch.setattr("tempfile.tempdir", None)
    hexadecimal = "0123456789abcdef" * 2
    ground.folder("neighbours", f".target.{hexadecimal}.tmp", "a/b")
    for name in (f".target.{hexadecimal}.tmp", f".target.rescale.{hexadecimal}.tmp", "target.json", "tmpabcdef"):
        (ground.home / name).write_text("mine")
    for name in ("target-2", "targets.rescale", "source.rescale", "blockmgr-1", "spark-1", "rescale-spark-link"):
        (ground.home / name).symlink_to(ground.home / "neighbours")
    before = tree(ground.home)
    assert ground.run() == 0
    assert main(["discard", str(ground.target)]) == 2
    after = {path: item for path, item in tree(ground.home).items() if not path.startswith("target/")}
    after = {path: item for path, item in after.items() if not path.startswith("target.rescale") and path != "target"}
    del before["."], after["."]
    assert after == before
