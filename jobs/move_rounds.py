"""Move and validate one plan after another, as orders for them come, with the same tasks."""

from __future__ import annotations

import argparse
import socket
import sys
from contextlib import ExitStack, suppress
from functools import partial

import msgspec

from move_and_validate import steps_of_a_run
from rescale.execution.job import end_with_standard_input, load_plan_of_sides, run_part
from rescale.execution.progress import Progress
from rescale.execution.tasks.choice import TasksOnDemand, step_tasks
from rescale.lasting_process import Order
from rescale.mailbox import orders_at
from rescale.options.profiles import add_profiles, use_profiles
from rescale.runstate.places import places_of
from rescale.runstate.states import Transition, permit
from rescale.storage.locations import normalise
from rescale.text.errors import RescaleError


class _Rounds:
    """Runs that are carried out in this process, one after another.

    The workers, or Spark, start for the first run and are kept for later ones; Spark has executors for the first one.
    """

    def __init__(self, master: str | None, ending: ExitStack) -> None:
        self._master = master
        self._ending = ending
        self._tasks: TasksOnDemand | None = None

    def carry_out(self, order: Order) -> None:
        plan = load_plan_of_sides(order.plan, order.result)
        permit(plan, Transition.MOVE)  # before any document is put beside what may be somebody else's target
        if self._tasks is None:
            self._tasks = self._ending.enter_context(step_tasks("rescale", self._master, 2 * plan.bytes_moved))
        for step, execute in steps_of_a_run(order.proof).items():
            run_part(step, places_of(plan).result(step), partial(execute, plan, self._tasks))

    def answer(self, order: Order) -> None:
        """Carry out a run, and leave its result document, which has its error, too."""
        with suppress(RescaleError):
            run_part("move_rounds", order.result, partial(self.carry_out, order))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    orders = parser.add_mutually_exclusive_group(required=True)
    orders.add_argument("--orders", metavar="FD", type=int, help="the socket that orders come over")
    orders.add_argument("--orders-at", metavar="URI", help="the place where orders are put, for another machine")
    parser.add_argument(
        "--master",
        metavar="MASTER",
        help="local[N]: N processes of this machine; else Spark's master, by default the one of spark-submit",
    )
    parser.add_argument("--drawn", action="store_true", help="say how far the work is for a program that draws it")
    add_profiles(parser, "source", ("orders_at",))
    arguments = parser.parse_args()
    use_profiles(arguments)
    Progress.drawn = arguments.drawn
    with ExitStack() as ending:
        rounds = _Rounds(arguments.master, ending)
        if arguments.orders_at is not None:
            for order in orders_at(normalise(arguments.orders_at)):
                rounds.answer(order)
            return 0
        end_with_standard_input()
        connection = ending.enter_context(socket.socket(fileno=arguments.orders))
        for line in ending.enter_context(connection.makefile("rb")):
            rounds.answer(msgspec.json.decode(line, type=Order))
            connection.sendall(b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
