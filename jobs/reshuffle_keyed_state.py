"""Move keyed state to the subtasks that will own its key groups."""

from __future__ import annotations

import sys

from rescale.execution.job import add_plan, job_parser, plan_of, run_job
from rescale.execution.steps import reshuffle_keyed_state
from rescale.execution.tasks.choice import step_tasks
from rescale.flink.slot import KEYED_SLOTS
from rescale.report.step_results import MovedStreams


def main() -> int:
    parser = job_parser(__doc__)
    add_plan(parser)
    arguments = parser.parse_args()

    def body() -> MovedStreams:
        plan = plan_of(arguments)
        with step_tasks("rescale: reshuffle keyed state", arguments.master, plan.bytes_of(*KEYED_SLOTS)) as tasks:
            return reshuffle_keyed_state(plan, tasks)

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
