"""Redistribute operator state to the new subtasks by its distribution mode."""

from __future__ import annotations

import sys

from rescale.execution.job import add_plan, job_parser, plan_of, run_job
from rescale.execution.steps import redistribute_operator_state
from rescale.execution.tasks.choice import step_tasks
from rescale.flink.slot import OPERATOR_SLOTS
from rescale.report.step_results import MovedStreams


def main() -> int:
    parser = job_parser(__doc__)
    add_plan(parser)
    arguments = parser.parse_args()

    def body() -> MovedStreams:
        plan = plan_of(arguments)
        work = plan.bytes_of(*OPERATOR_SLOTS)
        with step_tasks("rescale: redistribute operator state", arguments.master, work, on_driver=True) as tasks:
            return redistribute_operator_state(plan, tasks)

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
