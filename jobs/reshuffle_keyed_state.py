"""Move keyed state to the subtasks that will own its key groups."""

from __future__ import annotations

import sys

from rescale.execution.job import add_plan, job_parser, run_job
from rescale.execution.steps import reshuffle_keyed_state
from rescale.execution.tasks.choice import step_tasks
from rescale.flink.slot import KEYED_SLOTS
from rescale.report.step_results import MovedStreams
from rescale.runstate.documents import load_plan
from rescale.storage.locations import normalise


def main() -> int:
    parser = job_parser(__doc__)
    add_plan(parser)
    arguments = parser.parse_args()

    def body() -> MovedStreams:
        plan = load_plan(normalise(arguments.plan))
        with step_tasks("rescale: reshuffle keyed state", arguments.master, plan.bytes_of(*KEYED_SLOTS)) as tasks:
            return reshuffle_keyed_state(plan, tasks)

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
