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

    `make_process` returns the process of a try, and `before_stage` is called with each stage before it begins. A turn
    is at most `longest_turn` requests long.
    """

    random: Random
    make_process: Callable[[str, Callable[[], object]], Process]
    log: list[str]
    before_stage: Callable[[str], None]
    longest_turn: int
    others: list[Process] = field(default_factory=list)
    """Processes beside the run: zombies, rivals, twins."""

    def run(self, steps: Steps) -> Ending:
        plan_uri, tries = "", 0
        for stage in steps.STAGES:
            self.before_stage(stage[0])
            running = {step: self.make_process(step, steps.body(step, plan_uri)) for step in stage}
            tries_left = dict.fromkeys(stage, TRIES - 1)
            failure: Ending | None = None
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
                        running[step] = self.make_process(step, steps.body(step, plan_uri))
                    else:
                        failure = Ending(rescale_error or StoreError("killed again and again"), tries, step)
            if failure is not None:
                return failure
        return Ending(None, tries, "publish")

    def end_others(self, *, kill: bool, name_prefix: str = "") -> None:
        """Kill the `others` whose names begin with `name_prefix`, or let them run to their ends in turns."""
        while remaining := [process for process in self.others if process.name.startswith(name_prefix)]:
            if kill:
                self.others.remove(remaining[-1])
                remaining[-1].kill()
            else:
                self._let_one_go_on([] if remaining == self.others else remaining)

    def _let_one_go_on(self, awaited: list[Process]) -> None:
        beside = [process for process in self.others if self.random.random() < 0.5] if awaited else self.others
        process = self.random.choice([*awaited, *beside])
        is_alone = len(awaited) + len(self.others) == 1
        process.go_on(*(() if is_alone else (self.random.randint(1, self.longest_turn),)))
        if process in self.others and process.is_over:
            self.others.remove(process)
            self._log_end(process, process.error)

    def _log_end(self, process: Process, error: BaseException | None) -> None:
        outcome = (
            "done" if error is None else "lost" if process.is_lost and not process.is_over else _description(error)
        )
        self.log.append(f"{process.name} after {process.request_count} requests: {outcome}")


def _description(error: BaseException) -> str:
    return f"{type(error).__name__} {error}"[:300].replace("\n", ", ")


def _as_rescale_error(error: BaseException) -> RescaleError | None:
    """Return the error with which a step's process ends, None for a killed process."""
    return as_rescale_error(error) if isinstance(error, Exception) else None
