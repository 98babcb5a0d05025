"""Read the result back from storage, compare it with the source, and certify it."""

from __future__ import annotations

import sys

from rescale.execution.job import add_plan, job_parser, plan_of, proof_of, run_job
from rescale.execution.steps import validate_coverage, validate_published
from rescale.execution.tasks.choice import step_tasks
from rescale.options.command_line import add_options, values_of
from rescale.planning.request.surgery_request import surgery_from_options
from rescale.runstate.certificate import Certificate
from rescale.runstate.states import refuse_missing_result
from rescale.snapshot.moves import parse_moves
from rescale.snapshot.reading.discovery import find_metadata
from rescale.storage.locations import normalise


def main() -> int:
    parser = job_parser(__doc__, "source", ("target", "result"))
    add_plan(parser, is_required=False)
    parser.add_argument("--source", metavar="URI", help="instead of a plan: the source of a published result")
    parser.add_argument("--target", metavar="URI", help="instead of a plan: the published result")
    add_options(parser, "validate")
    arguments = parser.parse_args()
    if [bool(arguments.plan), bool(arguments.source), bool(arguments.target)] not in ([1, 0, 0], [0, 1, 1]):
        parser.error("give either --plan, or --source and --target")

    def body() -> Certificate:
        name, proof = "rescale: validate coverage", proof_of(arguments)
        if arguments.plan:
            plan = plan_of(arguments)
            work = 2 * plan.bytes_moved  # counted twice, because source and result are read
            with step_tasks(name, arguments.master, work) as tasks:
                return validate_coverage(plan, tasks, proof)
        source, target = normalise(arguments.source), normalise(arguments.target)
        refuse_missing_result(target)
        find_metadata(source)  # raises `RequestError` if there is no snapshot
        prefixes, declared_surgery = (
            [*map(normalise, arguments.allow_prefix)],
            surgery_from_options(values_of(arguments, "validate")),
        )
        with step_tasks(name, arguments.master) as tasks:
            return validate_published(
                source,
                target,
                tasks,
                proof,
                declared_surgery=declared_surgery,
                key_hash=arguments.key_hash,
                allow_prefixes=prefixes,
                moves=parse_moves(arguments.moved),
            )

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
