"""Compare the state of two snapshots, whatever their shapes."""

from __future__ import annotations

import sys
from typing import Any

from rescale.execution.diff.snapshots import diff_snapshots
from rescale.execution.job import add_surgery, job_parser, run_job
from rescale.execution.step_tasks import step_tasks
from rescale.planning.asked.asked_surgery import asked_surgery
from rescale.snapshot.opening import open_snapshot
from rescale.storage.locations import normalise
from rescale.surgery_options import surgery_of


def main() -> int:
    parser = job_parser(__doc__)
    parser.add_argument("--a", metavar="URI", required=True, help="a snapshot")
    parser.add_argument("--b", metavar="URI", required=True, help="another one")
    add_surgery(parser)
    arguments = parser.parse_args()

    def body() -> dict[str, Any]:
        prefixes = [*map(normalise, arguments.allow_prefix)]
        declared = surgery_of(arguments)
        a = open_snapshot(normalise(arguments.a), prefixes, given_up=declared.drops)
        b = open_snapshot(normalise(arguments.b), prefixes)
        surgery = asked_surgery(a, declared)
        work = sum(operator.bytes for snapshot in (a, b) for operator in snapshot.operators)
        with step_tasks("rescale: diff snapshots", arguments.master, work) as tasks:
            return diff_snapshots(a, b, tasks, surgery).document()

    return run_job(arguments, body)


if __name__ == "__main__":
    sys.exit(main())
