"""Mutants tried by tests, each in a fork of a process that has imported and collected everything.

The tests run once as they are, which says how long each takes and which lines it comes by. Of a mutant those alone run
that come by its lines, quick ones first, until one fails.
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from mutation.forks import in_a_fork
from mutation.mutants import Mutant
from mutation.planter import Planter
from simulation.bugs.table import SEEDS
from simulation.history import play
from simulation.installed import installed


class Outcome(NamedTuple):
    """`found_by` is a test; without one the mutant survived, `tried` tests: none if no test comes by."""

    mutant: Mutant
    found_by: str
    tried: int


@dataclass
class Check:
    """A test, or a history; `run` gives what went wrong, and is told what is run next in this process."""

    name: str
    run: Callable[[Any], str]
    item: pytest.Item | None = None
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    lines: set[tuple[str, int]] = field(default_factory=set)
    finds: int = 0


class Trial:
    """A plugin of pytest: what it collects are the checks, and `mutants` are tried in place of running them.

    `say` is given each outcome. A check may take `patience` in seconds of CPU time, and four times what it took before.
    """

    def __init__(
        self, mutants: Sequence[Mutant], histories: int, say: Callable[[Outcome], None], patience: float = 1.0
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._mutants, self._histories, self._say, self._patience = mutants, histories, say, patience

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("not all tests could be collected")
        checks = [Check(item.nodeid, functools.partial(_run_item, item), item) for item in session.items]
        seeds = [*dict.fromkeys((*SEEDS.values(), *range(30)))][: self._histories]
        checks += [Check(f"history {seed}", functools.partial(_run_history, seed)) for seed in seeds]
        aloud = session.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled
        for check in self._run_as_they_are(checks, session):
            checks.remove(check)
            with aloud():
                print(f"{check.name} breaks a promise without any mutant, and is left out", flush=True)
        planter = Planter({str(mutant.path) for mutant in self._mutants})
        for mutant in self._mutants:
            outcome = self._try(mutant, planter, [check for check in checks if _comes_by(check, mutant)], session)
            self.outcomes.append(outcome)
            with aloud():
                self._say(outcome)
        return True

    def _run_as_they_are(self, checks: Sequence[Check], session: pytest.Session) -> list[Check]:
        """Histories that go wrong. The tests are right, or nothing is tried."""
        wrong = []
        files = {str(mutant.path) for mutant in self._mutants}
        for check, after in _with_the_next(checks, session):
            begun, begun_cpu = time.perf_counter(), time.process_time()
            with _traced(files) as check.lines:
                said = check.run(after)
            check.seconds, check.cpu_seconds = time.perf_counter() - begun, time.process_time() - begun_cpu
            if said and check.item:
                session.shouldfail = f"{check.name} fails without any mutant:\n{said}"
                raise session.Failed(session.shouldfail)
            if said:
                wrong.append(check)
        return wrong

    def _try(self, mutant: Mutant, planter: Planter, checks: list[Check], session: pytest.Session) -> Outcome:
        places = planter.places(mutant) if checks else []
        if not places:
            return Outcome(mutant, "", 0)
        checks.sort(key=lambda check: (-check.finds, check.cpu_seconds))

        def work() -> str:
            planter.plant(places)
            return self._first_that_fails(checks, session)

        failed = in_a_fork(work, self._most_seconds(checks))
        for check in checks:
            if check.name == failed:
                self._must_be_right_in_a_fork(check, session)
                check.finds += 1
        return Outcome(mutant, failed, len(checks))

    def _must_be_right_in_a_fork(self, check: Check, session: pytest.Session) -> None:
        """It may need what another test leaves behind, and then it finds nothing."""
        if not check.finds and in_a_fork(lambda: self._first_that_fails([check], session), self._most_seconds([check])):
            session.shouldfail = f"{check.name} fails in a fork without any mutant"
            raise session.Failed(session.shouldfail)

    def _first_that_fails(self, checks: Sequence[Check], session: pytest.Session) -> str:
        """Return the first failing check; the kernel ends this process if a check takes far too much CPU time."""
        for check, after in _with_the_next(checks, session):
            signal.setitimer(signal.ITIMER_PROF, self._patience + 4 * check.cpu_seconds)
            if check.run(after):
                return check.name
        return ""

    def _most_seconds(self, checks: Sequence[Check]) -> float:
        return 20 * (self._patience + sum(check.seconds for check in checks))


def _with_the_next(checks: Sequence[Check], session: pytest.Session) -> Iterator[tuple[Check, Any]]:
    """Yield each check with the item after it; what is set up for the session outlives the last check."""
    for check, after in zip(checks, [*checks[1:], None], strict=True):
        yield check, (after and after.item) or session


def _comes_by(check: Check, mutant: Mutant) -> bool:
    return any((str(mutant.path), line) in check.lines for line in mutant.lines)


def _run_item(item: pytest.Item, after: Any) -> str:
    reports = runtestprotocol(item, log=False, nextitem=after)
    return "\n".join(report.longreprtext or "failed" for report in reports if report.failed)


def _run_history(seed: int, _: Any) -> str:
    with installed():
        return play(seed).broken or ""


@contextmanager
def _traced(files: Iterable[str]) -> Iterator[set[tuple[str, int]]]:
    """The lines of these files that anything in this process comes by."""
    wanted = frozenset(files)
    lines: set[tuple[str, int]] = set()

    def in_a_file(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return in_a_file

    def anywhere(frame: FrameType, *_: Any) -> Any:
        return in_a_file if frame.f_code.co_filename in wanted else None

    before = sys.gettrace()
    threading.settrace(anywhere)
    sys.settrace(anywhere)
    try:
        yield lines
    finally:
        sys.settrace(before)
        threading.settrace(None)
