"""Move and validate the state of one plan after another, in a process that waits for orders."""

from __future__ import annotations

import argparse
import atexit
import gc
import socket
import sys
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module

import msgspec

from rescale.execution.job import end_with_standard_input, load_plan_with_targets, run_step_of_job
from rescale.execution.progress import Progress
from rescale.execution.tasks.choice import TasksOnDemand, step_tasks
from rescale.execution.tasks.worker_server import load_common_loops, load_worker_modules
from rescale.lasting_process import Order
from rescale.mailbox import orders_at
from rescale.options.profiles import add_profiles, use_profiles
from rescale.options.spark_master import local_master
from rescale.planning.little_work import LITTLE_BYTES
from rescale.runstate.places import places_of
from rescale.runstate.states import Transition, permit
from rescale.storage.locations import normalise
from rescale.text.errors import RescaleError
from rescale.ticks import END_OF_RUN, line_of


class _Rounds:
    """Carries out runs in this process, one after another.

    The workers, or Spark, start for the first run and stay for later ones. Spark gets as many executors as the first
    run needs.
    """

    def __init__(self, master: str | None, exit_stack: ExitStack) -> None:
        self._master = master
        self._ending = exit_stack
        self._tasks: TasksOnDemand | None = None

    def begin(self, record_bytes: int | None) -> None:
        """Prepare for the first order, which moves `record_bytes`; None if that is unknown, as for rounds.

        For more than `LITTLE_BYTES`, start local workers. For fewer, this process moves the records: import the modules
        of workers. If the number is unknown, also load the compiled loops of workers, because the process waits for its
        first order anyway.
        """
        if (record_bytes or 0) > LITTLE_BYTES and local_master(self._master) is not None:
            self._tasks_for(record_bytes or 0).begin()
        import_module("move_and_validate")
        if record_bytes is None or 0 < record_bytes <= LITTLE_BYTES:
            load_worker_modules()
        if record_bytes is None:
            load_common_loops()

    def carry_out(self, order: Order) -> None:
        from move_and_validate import steps_of_a_run  # imported late, so that `begin` can start workers first

        plan = load_plan_with_targets(order.plan, order.result)
        # This comes before the first result document is written, because another plan may have claimed the target.
        permit(plan, Transition.MOVE)
        tasks = self._tasks_for(plan.bytes_moved)
        for step, execute in steps_of_a_run(order.proof).items():
            run_step_of_job(step, places_of(plan).result(step), partial(execute, plan, tasks))

    def _tasks_for(self, moved_bytes: int) -> TasksOnDemand:
        if self._tasks is None:
            self._tasks = self._ending.enter_context(step_tasks("rescale", self._master, 2 * moved_bytes))
        return self._tasks

    def answer(self, order: Order) -> None:
        """Carry out a run, and write its result document, which contains the error if the run fails."""
        with suppress(RescaleError):
            run_step_of_job("move_rounds", order.result, partial(self.carry_out, order))


def main() -> int:
    atexit.register(gc.freeze)  # a garbage collection at the end would take a tenth of a second
    parser = argparse.ArgumentParser(description=__doc__)
    orders = parser.add_mutually_exclusive_group(required=True)
    orders.add_argument("--orders", metavar="FD", type=int, help="file descriptor of the socket of orders")
    orders.add_argument("--orders-at", metavar="URI", help="directory where a task on another machine puts orders")
    parser.add_argument(
        "--master",
        metavar="MASTER",
        help="local[N]: N processes on this machine; else Spark's master (default: that of spark-submit)",
    )
    parser.add_argument(
        "--records", metavar="BYTES", type=int, help="bytes of records that the first order moves, if known"
    )
    parser.add_argument("--drawn", action="store_true", help="print progress as JSON, for a program that displays it")
    add_profiles(parser, "source", ("orders_at",))
    arguments = parser.parse_args()
    use_profiles(arguments)
    Progress.is_drawn = arguments.drawn
    with ExitStack() as exit_stack:
        rounds = _Rounds(arguments.master, exit_stack)
        rounds.begin(arguments.records)
        if arguments.orders_at is not None:
            for order in orders_at(normalise(arguments.orders_at)):
                rounds.answer(order)
            return 0
        end_with_standard_input()
        connection = exit_stack.enter_context(socket.socket(fileno=arguments.orders))
        for line in exit_stack.enter_context(connection.makefile("rb")):
            rounds.answer(msgspec.json.decode(line, type=Order))
            print(line_of(END_OF_RUN), file=sys.stderr, flush=True)
            connection.sendall(b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
