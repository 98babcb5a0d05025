"""Move all state, compare it with the source and certify it: the steps of a run, with one Spark at most."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from rescale.execution.job import add_plan, add_proof, job_parser, run_job, run_part
from rescale.execution.step_tasks import step_tasks
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks import Tasks
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof
from rescale.process import Step
from rescale.storage.locations import normalise
from rescale.target.documents import load_plan
from rescale.target.places import places_of


def steps_of_a_run(proof: Proof) -> dict[Step, Callable[[Plan, Tasks], dict[str, Any]]]:
    """In order. Each leaves its own result document beside the target, as its process does."""
    return {
        Step.RESHUFFLE: reshuffle_keyed_state,
        Step.REDISTRIBUTE: redistribute_operator_state,
        Step.VALIDATE: partial(validate_coverage, proof=proof),
    }


def main() -> int:
    parser = job_parser(__doc__)
    add_plan(parser)
    add_proof(parser)
    arguments = parser.parse_args()

    def body() -> dict[str, Any]:
        plan = load_plan(normalise(arguments.plan))
        work = 2 * plan.bytes_moved  # what was moved is read, and what came of it
        with step_tasks("rescale", arguments.master, work) as tasks:
            for step, execute in steps_of_a_run(Proof(arguments.proof)).items():
                run_part(step, places_of(plan).result(step), partial(execute, plan, tasks))
        return {}

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
