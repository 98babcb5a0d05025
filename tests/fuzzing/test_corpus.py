"""Kept inputs: each is refused with an error of Rescale or is read correctly, in little time."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzzing import outcomes
from fuzzing.corpus import kept_inputs
from fuzzing.limits import limited_memory, limited_time
from fuzzing.outcomes import different_outcomes
from fuzzing.subject import try_out
from fuzzing.table import SUBJECT_NAMES, subject_of
from support.readme import ROOT


@pytest.mark.parametrize("name", SUBJECT_NAMES)
def test_kept_inputs_are_refused_or_read_in_little_time_and_memory(name: str) -> None:
    subject, inputs = subject_of(name), kept_inputs(name)
    assert inputs
    try_out(subject, next(subject.seeds()))  # imports and compilation do not count
    with limited_memory():
        for data in inputs:
            with limited_time(30):
                try_out(subject, data)


@pytest.mark.parametrize("name", SUBJECT_NAMES)
def test_first_seed_is_accepted(name: str) -> None:
    subject = subject_of(name)
    assert try_out(subject, next(subject.seeds())) is None


@pytest.mark.slow
def test_input_that_ends_differently_in_machine_code_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, data in enumerate(kept_inputs("key_groups")[:5]):
        (tmp_path / str(number)).write_bytes(data)
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'tests'}:{ROOT / 'jobs'}")
    assert different_outcomes("key_groups", tmp_path) == []
    real_outcomes = outcomes._outcomes

    def other_outcomes(name: str, folder: Path, jit_disabled: str) -> list[str]:
        lines = real_outcomes(name, folder, jit_disabled)
        return [*lines[:-1], "=4 another end"] if jit_disabled == "0" else lines

    monkeypatch.setattr(outcomes, "_outcomes", other_outcomes)
    (difference,) = different_outcomes("key_groups", tmp_path)
    assert difference.endswith("/ =4 another end")
