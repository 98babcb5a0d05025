"""Move keyed state to the subtasks that will own its key groups."""

from __future__ import annotations

import sys

from rescale.execution.job import run_step_of_plan
from rescale.execution.steps import reshuffle_keyed_state
from rescale.flink.slot import KEYED_SLOTS


def main() -> int:
    return run_step_of_plan(
        __doc__, "rescale: reshuffle keyed state", lambda plan: plan.bytes_of(*KEYED_SLOTS), reshuffle_keyed_state
    )


if __name__ == "__main__":
    sys.exit(main())
