"""Copy files of a running job's checkpoint ahead, into a target that no run has claimed."""

from __future__ import annotations

import sys

from rescale.execution.job import add_plan, job_parser, plan_of, run_job
from rescale.execution.preparing import prepare_files
from rescale.execution.tasks.choice import step_tasks
from rescale.report.step_results import PreparedFiles
from rescale.runstate.preparation import prepared_sizes


def main() -> int:
    parser = job_parser(__doc__)
    add_plan(parser)
    arguments = parser.parse_args()

    def body() -> PreparedFiles:
        plan = plan_of(arguments)
        with step_tasks("rescale: copy files ahead", arguments.master, sum(prepared_sizes(plan).values())) as tasks:
            return prepare_files(plan, tasks)

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
