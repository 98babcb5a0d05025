"""Copy files of a running job's checkpoint ahead, into a target that no run has claimed."""

from __future__ import annotations

import sys

from rescale.execution.job import run_step_of_plan
from rescale.execution.preparing import prepare_files
from rescale.runstate.preparation import prepared_sizes


def main() -> int:
    return run_step_of_plan(
        __doc__, "rescale: copy files ahead", lambda plan: sum(prepared_sizes(plan).values()), prepare_files
    )


if __name__ == "__main__":
    sys.exit(main())
