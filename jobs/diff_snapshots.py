"""Compare the state of two snapshots, whatever their shapes."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.job import job_parser, run_job
from rescale.execution.tasks.choice import step_tasks
from rescale.options.command_line import add_options, values_of
from rescale.planning.request.surgery import resolve_surgery
from rescale.planning.request.surgery_request import surgery_from_options
from rescale.report.differences import DiffDocument
from rescale.runstate.states import refuse_unpublished
from rescale.snapshot.model import Snapshot
from rescale.snapshot.moves import Move, parse_moves
from rescale.snapshot.reading.discovery import NoSnapshotError
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.locations import normalise


def main() -> int:
    parser = job_parser(__doc__, "a", ("b", "result"))
    parser.add_argument("--a", metavar="URI", required=True, help="the first snapshot")
    parser.add_argument("--b", metavar="URI", required=True, help="the second snapshot")
    add_options(parser, "diff")
    arguments = parser.parse_args()

    def body() -> DiffDocument:
        prefixes = [*map(normalise, arguments.allow_prefix)]
        moves = parse_moves(arguments.moved)
        declared_surgery = surgery_from_options(values_of(arguments, "diff"))
        a = _opened(arguments.a, prefixes, given_up=declared_surgery.drops, moves=moves)
        b = _opened(arguments.b, prefixes, moves=moves)
        surgery = resolve_surgery(a, declared_surgery)
        work = sum(operator.bytes for snapshot in (a, b) for operator in snapshot.operators)
        with step_tasks("rescale: diff snapshots", arguments.master, work) as tasks:
            return diff_snapshots(a, b, tasks, surgery)

    return run_job(arguments, body)


def _opened(place: str, prefixes: Sequence[str], *, given_up: Collection[str] = (), moves: Sequence[Move]) -> Snapshot:
    """Open a snapshot, which may be a result. Raises `RequestError` if there is none, or no published one yet."""
    uri = normalise(place)
    try:
        return open_snapshot(uri, prefixes, given_up=given_up, moves=moves)
    except NoSnapshotError:
        refuse_unpublished(uri)
        raise


if __name__ == "__main__":
    sys.exit(main())
