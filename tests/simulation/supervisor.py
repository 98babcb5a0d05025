"""Supervisor of the steps, in place of Airflow: it runs steps in turn or side by side, and repeats failed tries.

A try that ends with a final error ends the run. A try that is killed, lost, or ends with a transient error is repeated.
A lost try may go on beside the next one, and other runs may go on, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from rescale.text.errors import RescaleError, StoreError, as_rescale_error
from simulation.processes import Crash, Process
from simulation.run import Steps

TRIES = 5
"""Highest number of tries of each step, as in Airflow: the first try and four retries (`RETRIES`)."""


@dataclass
class Ending:
    """Ending of a run: `error` is None if the run published, and `tries` counts the tries of all steps."""

    error: RescaleError | None
    tries: int
    step: str


@dataclass
class Supervisor:
    """Supervisor of a run.

    `make` returns the process of a try, and `before` is called with each stage before it begins. A turn is at most
    `longest_turn` requests long.
    """

    random: Random
    make: Callable[[str, Callable[[], object]], Process]
    log: list[str]
    before: Callable[[str], None]
    longest_turn: int
    others: list[Process] = field(default_factory=list)
    """Processes beside the run: zombies, rivals, twins."""

    def run(self, steps: Steps) -> Ending:
        plan_uri, tries = "", 0
        for stage in steps.STAGES:
            self.before(stage[0])
            running = {step: self.make(step, steps.body(step, plan_uri)) for step in stage}
            tries_left = dict.fromkeys(stage, TRIES - 1)
            failed: Ending | None = None
            tries += len(stage)
            while running:
                self._let_one_go_on(list(running.values()))
                for step, process in list(running.items()):
                    if process.is_lost:
                        self.others.append(process)
                        error: BaseException | None = Crash()
                    elif process.is_over:
                        error = process.error
                    else:
                        continue
                    del running[step]
                    self._log_end(process, error)
                    if error is None:
                        plan_uri = process.result if step == "plan" else plan_uri
                        continue
                    rescale_error = _as_rescale_error(error)
                    if (rescale_error is None or not rescale_error.is_final) and tries_left[step]:
                        tries_left[step] -= 1
                        tries += 1
                        running[step] = self.make(step, steps.body(step, plan_uri))
                    else:
                        failed = Ending(rescale_error or StoreError("killed again and again"), tries, step)
            if failed is not None:
                return failed
        return Ending(None, tries, "publish")

    def end_others(self, *, kill: bool, only: str = "") -> None:
        """Kill the `others` whose names begin with `only`, or let them run to their ends, one turn after the other."""
        while ending := [process for process in self.others if process.name.startswith(only)]:
            if kill:
                self.others.remove(ending[-1])
                ending[-1].kill()
            else:
                self._let_one_go_on([] if ending == self.others else ending)

    def _let_one_go_on(self, awaited: list[Process]) -> None:
        beside = [process for process in self.others if self.random.random() < 0.5] if awaited else self.others
        process = self.random.choice([*awaited, *beside])
        alone = len(awaited) + len(self.others) == 1
        process.go_on(*(() if alone else (self.random.randint(1, self.longest_turn),)))
        if process in self.others and process.is_over:
            self.others.remove(process)
            self._log_end(process, process.error)

    def _log_end(self, process: Process, error: BaseException | None) -> None:
        said = "done" if error is None else "lost" if process.is_lost and not process.is_over else _described(error)
        self.log.append(f"{process.name} after {process.requests} requests: {said}")


def _described(error: BaseException) -> str:
    return f"{type(error).__name__} {error}"[:300].replace("\n", ", ")


def _as_rescale_error(error: BaseException) -> RescaleError | None:
    """Return the error with which a step's process ends, None for a killed process."""
    return as_rescale_error(error) if isinstance(error, Exception) else None
