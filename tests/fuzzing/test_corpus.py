"""What was found once is met again: each input ends in an error of ours, or is taken for what it is, in little time."""

from __future__ import annotations

import pytest

from fuzzing.corpus import kept
from fuzzing.limits import little_memory, little_time
from fuzzing.subject import try_out
from fuzzing.table import NAMES, subject_of


@pytest.mark.parametrize("name", NAMES)
def test_inputs_that_are_kept(name: str) -> None:
    subject, inputs = subject_of(name), kept(name)
    assert inputs
    with little_memory():
        for data in inputs:
            with little_time():
                try_out(subject, data)


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_is_understood(name: str) -> None:
    subject = subject_of(name)
    assert try_out(subject, next(subject.seeds())) is None
