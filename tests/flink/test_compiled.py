"""Machine code that is cached for other processes: it is compiled again if any code or constant in it has changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import rescale
from rescale.flink.compiled import loop_digest
from rescale.flink.keyed.blocks import digest_loop, record_walk
from rescale.flink.keyed.heap import heap_loop, heap_write_loop
from rescale.flink.keys import machine
from support.slow import slow

INNER_CODE = """
from rescale.flink.compiled import compiled

SUMMAND = {summand}

@compiled
def times(x):
    return x * {factor}
"""
OUTER_CODE = """
import sys
from inner import SUMMAND, times
from rescale.flink.compiled import compiled

@compiled
def both(x):
    return times(x) + SUMMAND

print(both(10), sum(both.stats.cache_hits.values()))
"""


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process that imports modules from `folder`, and keeps machine code below it."""
    return {
        "PYTHONPATH": f"{folder}:{Path(rescale.__file__).parents[1]}",
        "NUMBA_CACHE_DIR": str(folder / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PATH": "/usr/bin:/bin",
    }


def run(folder: Path, factor: int, summand: int, limit_bytes: int | None = None, **variables: str) -> tuple[int, int]:
    """Return the result of the outer loop in a separate process, and how often it came from the cache.

    That process may not write files larger than `limit_bytes`; `variables` are further environment variables.
    """
    (folder / "inner.py").write_text(INNER_CODE.format(factor=factor, summand=summand))
    (folder / "outer.py").write_text(OUTER_CODE)
    limit_code = (
        ""
        if limit_bytes is None
        else f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes},) * 2); "
    )
    command = [sys.executable, "-c", f"{limit_code}import outer"]
    process = subprocess.run(command, env=environment(folder) | variables, check=True, capture_output=True, text=True)
    result, hits = map(int, process.stdout.split())
    return result, hits


@pytest.mark.slow
def test_loop_is_recompiled_if_code_or_constants_of_other_modules_change(tmp_path: Path) -> None:
    assert run(tmp_path, 2, 1) == (21, 0)
    assert run(tmp_path, 2, 1) == (21, 1), "kept"
    assert run(tmp_path, 3, 1) == (31, 0), "the inner loop of another file has changed"
    assert run(tmp_path, 3, 5) == (35, 0), "another constant"
    assert run(tmp_path, 2, 1) == (21, 1), "as it was before"


def test_loops_are_loaded_from_the_cache_before_their_first_call(tmp_path: Path) -> None:
    def loaded_loop_count() -> int:
        load = "from rescale.flink.compiled import load_cached_loops; load_cached_loops({'inner'})"
        command = [sys.executable, "-c", f"import inner; {load}; print(len(inner.times.overloads)); inner.times(10)"]
        completed = subprocess.run(command, env=environment(tmp_path), check=True, capture_output=True, text=True)
        return int(completed.stdout)

    (tmp_path / "inner.py").write_text(INNER_CODE.format(factor=2, summand=1))
    assert loaded_loop_count() == 0, "no process has compiled it"
    assert loaded_loop_count() == 1
    (tmp_path / "inner.py").write_text(INNER_CODE.format(factor=33, summand=1))
    assert loaded_loop_count() == 0, "the loop has changed"
    for path in (tmp_path / "cache").rglob("*.nb*"):
        path.write_bytes(b"\x80")
    assert loaded_loop_count() == 0, "the files are broken"
    assert loaded_loop_count() == 1


def test_compilation_is_announced_once_and_not_for_cached_loops(tmp_path: Path) -> None:
    program = (
        "from rescale.flink import compiling; compiling.listen_once(lambda kept: print('compiling', kept)); "
        "import outer"
    )
    (tmp_path / "inner.py").write_text(INNER_CODE.format(factor=2, summand=1))
    (tmp_path / "outer.py").write_text(OUTER_CODE)
    command = [sys.executable, "-c", program]
    run_process = partial(
        subprocess.run, command, env=environment(tmp_path), check=True, capture_output=True, text=True
    )
    runs = [run_process() for _ in range(2)]
    assert [completed.stdout for completed in runs] == ["compiling True\n21 0\n", "21 1\n"]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["no directory", slow("no room"), "broken files"])
def test_machine_code_that_cannot_be_cached_or_read_is_compiled_again(tmp_path: Path, fault: str) -> None:
    """The cause may be a user without a home who cannot write to the package, a full disk, or broken files."""
    cache = tmp_path / "cache"
    if fault == "no directory":
        cache.write_text("a file")
        (tmp_path / "__pycache__").write_text("another one")
        assert run(tmp_path, 2, 1, HOME="/dev/null") == (21, 0)
        assert run(tmp_path, 2, 1, HOME="/dev/null") == (21, 0)
        return
    assert run(tmp_path, 2, 1, limit_bytes=100 if fault == "no room" else None) == (21, 0)
    for path in cache.rglob("*.nb*"):
        path.write_bytes(b"\x80")
    assert run(tmp_path, 2, 1) == (21, 0)
    assert run(tmp_path, 2, 1) == (21, 1)


def test_digest_of_a_loop_covers_the_loops_that_it_calls() -> None:
    assert loop_digest(digest_loop.digest_records) == loop_digest(digest_loop.digest_records)
    assert (
        len(
            {loop_digest(loop) for loop in (digest_loop.digest_records, record_walk.walk_records, record_walk.read_u32)}
        )
        == 3
    )


@pytest.mark.parametrize(
    ("loop", "name"),
    [
        (heap_loop.copy_entries, "walk"),
        (heap_loop.copy_entries, "SHORT"),
        (heap_write_loop.write_entries, "walk"),
        (heap_write_loop.write_entries, "FINE"),
    ],
)
def test_digest_of_a_loop_covers_attributes_of_the_modules_that_it_names(
    loop: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = loop_digest(loop)
    monkeypatch.setattr(machine, name, record_walk.read_u32 if name == "walk" else 99)
    assert loop_digest(loop) != before
    monkeypatch.undo()
    assert loop_digest(loop) == before
