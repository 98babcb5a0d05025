"""The tool finds what a test finds, and says of nothing else that it was found."""

from __future__ import annotations

import signal
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from mutation.accepted import ACCEPTED, key_of
from mutation.mutants import Mutant, mutants
from mutation.table import ROOT
from mutation.trial import Outcome, Trial

CODE = """
from functools import cache

@cache
def price(pieces):
    return pieces * 2 if pieces >= 10 else 0

def last(words):
    yield words[1:]

class Box:
    def __init__(self, size):
        if size < 0:
            raise ValueError(f"{size + 1}")
        self.size = size
"""
TESTS = """
import pytest
from {module} import Box, price

def test_price():
    assert price(11) == 22

def test_a_size_is_kept():
    assert Box(3).size == 3

def test_no_size():
    with pytest.raises(ValueError):
        Box(-1)
"""


@pytest.fixture
def try_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Outcome]]:
    """Function that returns the outcome of each mutant of some code, by how the mutant reads.

    `patience` are the CPU seconds that a test may take beyond what it took without a mutant. A fork of a worker that
    holds thousands of tests needs some of them for itself.
    """

    def try_them(code: str, tests: str, *, patience: float = 60) -> dict[str, Outcome]:
        module = f"mutated_{uuid.uuid4().hex}"
        (tmp_path / f"{module}.py").write_text(code)
        (tmp_path / f"test_{module}.py").write_text(tests.format(module=module))
        monkeypatch.syspath_prepend(tmp_path)
        trial = Trial([*mutants(tmp_path / f"{module}.py")], 0, lambda _: None, patience=patience)
        arguments = ["-qq", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", "-c", "/dev/null"]
        assert pytest.main([*arguments, str(tmp_path / f"test_{module}.py")], [trial]) == pytest.ExitCode.OK
        return {outcome.mutant.change: outcome for outcome in trial.outcomes}

    return try_them


@pytest.mark.slow
def test_what_a_test_shows_is_found_and_nothing_else(try_out: Callable[..., dict[str, Outcome]]) -> None:
    outcomes = try_out(CODE, TESTS)
    by = {change: outcome.found_by.rpartition("::")[2] for change, outcome in outcomes.items()}
    assert by["return pieces // 2 if pieces >= 10 else 0"] == "test_price"
    assert by["pass: self.size = size"] == "test_a_size_is_kept"
    assert by["pass: raise ValueError(f'{size + 1}')"] == "test_no_size"
    assert [change for change, outcomes in by.items() if not outcomes] == [
        "return pieces * 2",
        "return pieces * 2 if pieces > 10 else 0",
        "return pieces * 2 if pieces >= 11 else 0",
        "return pieces * 2 if pieces >= 9 else 0",
        "return pieces * 2 if pieces >= 10 else 1",
        "pass: yield words[1:]",
        "yield words[:]",
        "yield words[2:]",
        "yield words[0:]",
        "if size <= 0:",
        "if size < 1:",
    ]
    assert outcomes["yield words[2:]"].tried == 0
    assert outcomes["if size < 1:"].tried == 2


def test_what_never_ends_is_ended(try_out: Callable[..., dict[str, Outcome]]) -> None:
    code = "def wait(asked):\n    while asked:\n        asked = False\n"
    outcomes = try_out(code, "from {module} import wait\ndef test_an_end():\n    wait(True)\n", patience=5)
    assert {change: outcome.found_by for change, outcome in outcomes.items()} == {
        "while not asked:": "",
        "asked = True": f"its end: {-signal.SIGPROF}",
    }


@pytest.mark.slow
def test_what_is_accepted_is_still_to_be_met() -> None:
    files = {ROOT / "jobs" / "rescale" / place.partition(": ")[0] for place in ACCEPTED}
    there = Counter((key_of(mutant), mutant.change) for file in files for mutant in mutants(file))
    assert [
        (place, change) for place, changes in ACCEPTED.items() for change in changes if not there[place, change]
    ] == []


def test_no_mutant_is_the_code_itself() -> None:
    for file in (ROOT / "jobs" / "rescale" / "flink").glob("*.py"):
        original = compile(file.read_text(), str(file), "exec", dont_inherit=True)
        same = [_described(mutant) for mutant in mutants(file) if mutant.code == original]
        assert same == []


def _described(mutant: Mutant) -> str:
    return f"{mutant.place}: {mutant.change}"
