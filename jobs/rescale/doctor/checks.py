"""A check and its outcome; the answer of `doctor`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from rescale.text.advice import Advice, Mention
from rescale.text.errors import InternalError, RescaleError, as_rescale_error
from rescale.text.names import encodable

_PERMISSION_ADVICE = "check who may read and write there"


class CheckOutcome(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    """A run works, but with drawbacks, or not in all cases."""

    ERROR = "error"
    """A run would fail."""


class Check(msgspec.Struct, frozen=True):
    """A check of its `subject`: `tried` says what it did, `result` what it found, `meaning` what that means for a run.

    `advice` says what to do; null if there is nothing to do.
    """

    subject: str
    tried: str
    outcome: CheckOutcome
    result: str
    meaning: str
    advice: str | None = None


class Diagnosis(msgspec.Struct, frozen=True):
    """All checks, in order: the answer of `doctor`. `healthy` tells whether no check ended with an error."""

    healthy: bool
    checks: tuple[Check, ...]


class CheckList:
    """Collects checks. `wording` returns the text of a mention in their advice (default: that of a command line)."""

    def __init__(self, wording: Callable[[Mention], str] | None = None) -> None:
        self._wording = wording
        self.done: list[Check] = []
        self.unreachable = False
        """Whether a check ended with a `StoreError`: further tries at the same place would only take time."""

    @property
    def diagnosis(self) -> Diagnosis:
        return Diagnosis(all(check.outcome is not CheckOutcome.ERROR for check in self.done), tuple(self.done))

    @contextmanager
    def trying(self, subject: str, tried: str, meaning: str) -> Iterator[PendingCheck]:
        """Provide a check to the block. An error of the block makes the check fail, but a bug of Rescale is raised."""
        check = PendingCheck(self, subject, tried)
        try:
            yield check
        except Exception as exception:
            error = as_rescale_error(exception)
            if isinstance(exception, OSError) and isinstance(error, InternalError):
                check.fail(f"{type(exception).__name__}: {exception}", meaning, _PERMISSION_ADVICE)
                return
            if isinstance(error, InternalError):
                raise
            self.unreachable = self.unreachable or not error.is_final
            check.fail(result_text(error), meaning, error.advice)

    def add(self, check: PendingCheck, outcome: CheckOutcome, result: str, meaning: str, advice: str | None) -> None:
        """Add a check. An `Advice`, and names that are not UTF-8, become texts that JSON can hold."""
        if isinstance(advice, Advice):
            advice = str(advice) if self._wording is None else advice.worded(self._wording)
        tried, result = encodable(check.tried), encodable(result)
        self.done.append(Check(check.subject, tried, outcome, result, meaning, advice))


@dataclass(frozen=True)
class PendingCheck:
    """A check that is being made; its methods add its outcome to `checks`."""

    checks: CheckList
    subject: str
    tried: str

    def ok(self, result: str, meaning: str) -> None:
        self.checks.add(self, CheckOutcome.OK, result, meaning, None)

    def warn(self, result: str, meaning: str, advice: str | None) -> None:
        self.checks.add(self, CheckOutcome.WARNING, result, meaning, advice)

    def fail(self, result: str, meaning: str, advice: str | None) -> None:
        self.checks.add(self, CheckOutcome.ERROR, result, meaning, advice)


def result_text(error: RescaleError) -> str:
    """Return an error as the result of a check, on one line."""
    details = ((name, getattr(error, name)) for name in ("path", "expected", "found"))
    return "; ".join([error.what, *(f"{name}: {value}" for name, value in details if value is not None)])
