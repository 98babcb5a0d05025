"""The steps of a run; each is a program in `jobs/` that runs in a process or pod of its own."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType


class Step(StrEnum):
    """Steps of a run; the value is the name of the program in `jobs/`.

    `RUN` runs all steps of one run. `ROUNDS` carries out one run after another, each with all its steps
    (`lasting_process`).
    """

    RESHUFFLE = "reshuffle_keyed_state"
    REDISTRIBUTE = "redistribute_operator_state"
    VALIDATE = "validate_coverage"
    PREPARE = "prepare_files"
    RUN = "move_and_validate"
    ROUNDS = "move_rounds"
    DIFF = "diff_snapshots"


STEPS_OF_A_RUN = (Step.RESHUFFLE, Step.REDISTRIBUTE, Step.VALIDATE)
"""Steps of a run that move and compare state, in their order."""


class StepEnd(msgspec.Struct, frozen=True):
    """How a step ended: the fields that every result document has."""

    status: Literal["done", "failed"]
    seconds: float | UnsetType = UNSET
