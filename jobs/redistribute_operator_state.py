"""Redistribute operator state to the new subtasks by its distribution mode."""

from __future__ import annotations

import sys

from rescale.execution.job import run_step_of_plan
from rescale.execution.steps import redistribute_operator_state
from rescale.flink.slot import OPERATOR_SLOTS


def main() -> int:
    return run_step_of_plan(
        __doc__,
        "rescale: redistribute operator state",
        lambda plan: plan.bytes_of(*OPERATOR_SLOTS),
        redistribute_operator_state,
        on_driver=True,
    )


if __name__ == "__main__":
    sys.exit(main())
