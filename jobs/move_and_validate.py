"""Run all steps of a run in one process: move all state, compare it with the source, and certify it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial

from rescale.execution.job import add_plan, add_proof, job_parser, plan_of, proof_of, run_job, run_step_of_job
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.choice import step_tasks
from rescale.execution.tasks.protocol import Tasks
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.report.step_results import StepResult
from rescale.runstate.places import places_of
from rescale.runstate.states import Transition, permit
from rescale.runstate.step import Step


def steps_of_a_run(proof: Proof) -> dict[Step, Callable[[Plan, Tasks], StepResult]]:
    """Return the function of each step of a run, in the order of the run.

    Each step leaves a result document beside the target, as in a process of its own.
    """
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

    def body() -> None:
        plan = plan_of(arguments)
        # This comes before the first result document is written, because another plan may have claimed the target.
        permit(plan, Transition.MOVE)
        work = 2 * plan.bytes_moved  # validation alone reads as much: source and result
        with step_tasks("rescale", arguments.master, work) as tasks:
            for step, execute in steps_of_a_run(proof_of(arguments)).items():
                run_step_of_job(step, places_of(plan).result(step), partial(execute, plan, tasks))

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
