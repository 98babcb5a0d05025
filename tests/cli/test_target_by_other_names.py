"""A target that is the source, lies inside or around it, or was replaced, is refused by any of its names."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rescale.storage.files.local_store import LocalStore
from rescale.text.errors import RequestError
from support.commands import Captured, answer
from support.ground import SHAPE, Ground, interrupted
from support.slow import pairs_in_turn
from support.trees import tree


def _below_a_mount_of_the_source(ground: Ground) -> Path:
    ground.bind(ground.source, ground.home / "mounted")
    return ground.home / "mounted" / "result"


def _a_mount_of_the_source(ground: Ground) -> Path:
    ground.bind(ground.source, ground.home / "mounted")
    return ground.home / "mounted"


def _below_a_mount_of_a_folder_of_the_source(ground: Ground) -> Path:
    (ground.source / "shared").mkdir()
    ground.bind(ground.source / "shared", ground.home / "mounted")
    return ground.home / "mounted" / "result"


def _below_a_mount_of_the_parent_of_the_source(ground: Ground) -> Path:
    ground.bind(ground.home, ground.home.parent / "mounted")
    return ground.home.parent / "mounted" / "source" / "result"


def _around_the_source(ground: Ground) -> Path:
    """Return another name of the directory that holds the source."""
    ground.bind(ground.home, ground.home.parent / "mounted")
    return ground.home.parent / "mounted"


@pytest.mark.parametrize(
    "arrange",
    [
        _below_a_mount_of_the_source,
        _a_mount_of_the_source,
        _below_a_mount_of_a_folder_of_the_source,
        _below_a_mount_of_the_parent_of_the_source,
        _around_the_source,
    ],
)
def test_target_inside_or_around_the_source_by_another_name_is_refused(
    ground: Ground, capsys: Captured, arrange: Callable[[Ground], Path]
) -> None:
    target = arrange(ground)
    before = tree(ground.home)
    code, document = answer(capsys, "run", str(ground.source), "--target", str(target), *SHAPE)
    assert tree(ground.home) == before
    assert (code, document["error"], document["path"]) == (2, "RequestError", str(target))
    assert not Path(f"{target}.rescale").exists()


@pytest.mark.parametrize(
    ("step", "leads_to_source"),
    pairs_in_turn(["reshuffle_keyed_state", "move_and_validate", "validate_coverage"], [True, False], quick=1),
)
def test_step_refuses_a_target_that_was_replaced_by_a_link(ground: Ground, *, step: str, leads_to_source: bool) -> None:
    interrupted(ground, ground.target)
    foreign_directory = ground.source if leads_to_source else ground.savepoint("others")
    ground.target.symlink_to(foreign_directory)
    (plan,) = ground.documents.glob("plan-*.json")
    before = tree(foreign_directory), tree(ground.documents), sorted(ground.home.iterdir())
    result = ground.home.parent / "result.json"
    command_line = [sys.executable, "-m", step, "--plan", str(plan), "--result", str(result), "--master", "local[2]"]
    assert subprocess.run(command_line, check=False, capture_output=True).returncode == 2
    assert (tree(foreign_directory), tree(ground.documents), sorted(ground.home.iterdir())) == before


def test_store_refuses_a_target_that_was_replaced_while_it_was_written(ground: Ground) -> None:
    """The same process goes on writing after the target was replaced."""
    foreign_directory, store = ground.savepoint("others"), LocalStore()
    store.put(str(ground.target / "a"), b"state")
    before = tree(foreign_directory)
    ground.target.rename(ground.home / "moved")
    ground.target.symlink_to(foreign_directory)
    for write in (store.put, store.put_if_absent):
        with pytest.raises(RequestError):
            write(str(ground.target / "b"), b"state")
    with pytest.raises(RequestError):
        store.begin_parts(str(ground.target / "c"), str(ground.home / "target.rescale" / "staging"))
    with pytest.raises(RequestError):
        store.delete([str(ground.target / "_metadata")])
    assert tree(foreign_directory) == before
