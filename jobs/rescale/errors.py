"""Whose fault it is, and what to do next.

Every error that a user can meet is one of these. The *final* ones are never retried: the same input gives the same
answer. `StoreError` is the transient one: everything that moves bytes retries it. An exception that nobody expected is
a fault of ours, and final, too: `unexpected` makes one of these of it where a process or a task ends.

An error crosses process borders as data (`to_json`, `from_json`): a Spark task returns it as a row, a job
writes it into its result document, and whoever reads that raises the same error again.
"""

from __future__ import annotations

import errno
import textwrap
import traceback as tracebacks
from typing import Any, ClassVar, Self

from rescale.names import encodable, printable, printable_lines, without_secrets

_LABELS = {"offset": "at byte", "advice": "what to do"}
"""Of details that go by another name in texts."""
_LONGEST_DETAIL = 1000
_LONGEST_TRACEBACK = 20_000
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What the operating system says of a disk that is full, or of which whoever runs this has had his share."""

_OF_THE_MACHINE = {
    *NO_ROOM,
    errno.EIO,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
    errno.EAGAIN,
    errno.ETIMEDOUT,
}
"""What the operating system says when it has no more to give."""
_NO_THREAD = "can't start new thread"
"""What Python says then."""


class RescaleError(Exception):
    """Base of all errors with a sentence for the user; `exit_code` is the process' exit code.

    `what` is the sentence. The rest is optional and is printed on lines of its own: where it was seen (`path`,
    `offset` in bytes, `operator`, `state`), what was `expected` and what was `found`, and what to `advise`. Only faults
    of ours have a `traceback`. As text it holds nothing that a terminal would obey, whatever the names in it are; and
    of an address no password, whoever has put one there: it goes into logs, documents and reports.
    """

    exit_code: ClassVar[int] = 1
    final: ClassVar[bool] = True
    DETAILS: ClassVar[tuple[str, ...]] = (
        "path",
        "offset",
        "operator",
        "state",
        "expected",
        "found",
        "advice",
        "traceback",
    )

    def __init__(
        self,
        what: str,
        *,
        path: str | None = None,
        offset: int | None = None,
        operator: str | None = None,
        state: str | None = None,
        expected: object = None,
        found: object = None,
        advice: str | None = None,
        traceback: str | None = None,
    ) -> None:
        self.what = without_secrets(what)
        self.path = None if path is None else without_secrets(path)
        # As documents want it: a loop that is not compiled leaves a number of numpy's.
        self.offset = None if offset is None else int(offset)
        self.operator = operator
        self.state = state
        self.expected = None if expected is None else _shortened(without_secrets(str(expected)))
        self.found = None if found is None else _shortened(without_secrets(str(found)))
        self.advice = advice
        self.traceback = None if traceback is None else _shortened(without_secrets(traceback), _LONGEST_TRACEBACK)
        super().__init__(self.what)

    def __str__(self) -> str:
        details = [
            f"  {_LABELS.get(name, name)}: {printable(str(getattr(self, name)))}"
            for name in self.DETAILS
            if getattr(self, name) is not None and name != "traceback"
        ]
        if self.traceback is not None:
            details += ["  traceback:", textwrap.indent(printable_lines(self.traceback), "    ")]
        return "\n".join([printable(self.what), *details])

    def located(self, **details: Any) -> Self:
        """The same error with the details filled in that were not known where it was raised."""
        for name, value in details.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def to_json(self) -> dict[str, Any]:
        words = {name: getattr(self, name) for name in ("what", *self.DETAILS) if getattr(self, name) is not None}
        told = {name: encodable(one) if isinstance(one, str) else one for name, one in words.items()}
        return {"error": type(self).__name__, **told, "exit_code": self.exit_code}

    @staticmethod
    def from_json(document: dict[str, Any]) -> RescaleError:
        """The error that `to_json` described; an unknown class becomes a plain `RescaleError`."""
        kind = _BY_NAME.get(document["error"], RescaleError)
        return kind(document["what"], **{k: document[k] for k in RescaleError.DETAILS if k in document})

    @staticmethod
    def from_text(kind: str, text: str) -> RescaleError | None:
        """The error of a class that `str` told like this, but for a traceback; None if no class of ours goes by that
        name."""
        what, *lines = text.splitlines()
        names = {_LABELS.get(name, name): name for name in RescaleError.DETAILS if name != "traceback"}
        told = [line.removeprefix("  ").partition(": ") for line in lines]
        details: dict[str, Any] = {names[label]: words for label, _, words in told if label in names}
        found = _BY_NAME.get(kind)
        return None if found is None else found(what, **details)

    def __reduce__(self) -> tuple[Any, ...]:
        return RescaleError.from_json, (self.to_json(),)


class RequestError(RescaleError):
    """What was asked for makes no sense, or the target is taken."""

    exit_code = 2


class LockedError(RequestError):
    """What is there may be neither removed nor replaced yet, by whomever; leftovers may as well stay."""


class SnapshotError(RescaleError):
    """The input is damaged, or is not what it claims to be, or has changed since it was planned."""

    exit_code = 3


class UnsupportedError(RescaleError):
    """Valid, but refused; `advice` names the way round."""

    exit_code = 3


class IntegrityError(RescaleError):
    """The result is not what it must be; a run publishes nothing then."""

    exit_code = 4


class StoreError(RescaleError):
    """The network, a throttled or failing server, a full disk: worth another try."""

    exit_code = 1
    final = False


class InternalError(RescaleError):
    """A fault of ours: an exception that nobody expected."""

    exit_code = 5

    @classmethod
    def of(cls, exception: BaseException) -> InternalError:
        found = tracebacks.format_exception_only(exception)[-1].strip()
        return cls.seen(found, "".join(tracebacks.format_exception(exception)).rstrip())

    @classmethod
    def seen(cls, found: str, traceback: str) -> InternalError:
        """Of an exception that is known by what was told of it."""
        return cls(
            "a fault of Rescale itself, which nobody expected",
            found=found,
            advice="another try would meet it again: report it with its traceback",
            traceback=traceback,
        )


def unexpected(exception: Exception) -> RescaleError:
    """What an exception stands for that nobody expected: a fault of ours, unless the machine had no more to give."""
    if isinstance(exception, RescaleError):
        return exception
    out_of = isinstance(exception, OSError) and exception.errno in _OF_THE_MACHINE
    out_of = out_of or (isinstance(exception, RuntimeError) and str(exception) == _NO_THREAD)
    if out_of or isinstance(exception, MemoryError | ConnectionError | TimeoutError):
        return StoreError(
            "this machine, or one that it talks to, had no more to give",
            found=f"{type(exception).__name__}: {exception}",
            advice="memory, disk or a connection: look at the output above, then run the same command again",
        )
    return InternalError.of(exception)


def _shortened(text: str, longest: int = _LONGEST_DETAIL) -> str:
    """Both ends of a long text: state in a handle, or the names of hundreds of operators, would hide all else."""
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … {text[-half:]} ({len(text)} characters)"


_BY_NAME: dict[str, type[RescaleError]] = {
    kind.__name__: kind
    for kind in (RequestError, LockedError, SnapshotError, UnsupportedError, IntegrityError, StoreError, InternalError)
}
