"""Compare what was written with the source, read back from storage, and certify it."""

from __future__ import annotations

import sys
from typing import Any

from rescale.execution.job import add_plan, add_proof, add_surgery, job_parser, run_job
from rescale.execution.step_tasks import step_tasks
from rescale.execution.steps import validate_coverage, validate_published
from rescale.planning.values.proof import Proof
from rescale.snapshot.discovery import find_metadata
from rescale.storage.locations import normalise
from rescale.surgery_options import surgery_of
from rescale.target.documents import load_plan
from rescale.target.states import refuse_unpublished


def main() -> int:
    parser = job_parser(__doc__)
    add_plan(parser, required=False)
    parser.add_argument("--source", metavar="URI", help="instead of a plan: the source of a published result")
    parser.add_argument("--target", metavar="URI", help="instead of a plan: the published result")
    parser.add_argument("--key-hash", metavar="[UID=]HASH", action="append", default=[])
    add_surgery(parser)
    add_proof(parser)
    arguments = parser.parse_args()
    if [bool(arguments.plan), bool(arguments.source), bool(arguments.target)] not in ([1, 0, 0], [0, 1, 1]):
        parser.error("give either --plan, or --source and --target")

    def body() -> dict[str, Any]:
        name, proof = "rescale: validate coverage", Proof(arguments.proof)
        if arguments.plan:
            plan = load_plan(normalise(arguments.plan))
            work = 2 * plan.bytes_moved  # what was moved is read, and what came of it
            with step_tasks(name, arguments.master, work) as tasks:
                return validate_coverage(plan, tasks, proof)
        source, target = normalise(arguments.source), normalise(arguments.target)
        refuse_unpublished(target)
        for uri in (source, target):
            find_metadata(uri)  # `RequestError` if there is none
        prefixes, declared = [*map(normalise, arguments.allow_prefix)], surgery_of(arguments)
        with step_tasks(name, arguments.master) as tasks:
            return validate_published(
                source,
                target,
                tasks,
                proof,
                declared=declared,
                key_hash=arguments.key_hash,
                allow_prefixes=prefixes,
            )

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
