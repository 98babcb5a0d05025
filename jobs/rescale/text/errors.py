"""The errors that users see: the class of an error says whose fault it is, and its `advice` what to do.

*Final* errors are never retried, because the same input gives the same answer. `StoreError` is transient: workers,
Spark and Airflow run a task again that ended with it. An unexpected exception is a bug of Rescale, and final:
`as_rescale_error` turns it into one of these errors at the end of a process or a task.

Errors cross processes as data (`document`, `of_document`): a Spark task returns an error as a row, a job writes it into
its result document, and the reader raises the same error again.
"""

from __future__ import annotations

import errno
import textwrap
import traceback as tracebacks
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Self, TypeVar

from msgspec import UNSET, MsgspecError

from rescale.text.advice import SAME_COMMAND, Advice, Mention, advice_of_text
from rescale.text.error_document import ErrorDocument
from rescale.text.names import encodable, printable, printable_lines, without_secrets

_LABELS = {"offset": "at byte", "advice": "what to do"}
"""Labels of fields in the printed error that differ from the names of the fields."""
_MOST_DETAIL_CHARACTERS = 1000
_MOST_TRACEBACK_CHARACTERS = 20_000
DECODE_ERRORS = (MsgspecError, UnicodeError, RecursionError)
"""Errors of `msgspec.json.decode` for data that is not JSON, not of the type, not UTF-8, or nested too deeply."""

NO_ROOM_ERRORS = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of the operating system for a full disk or an exhausted quota."""

_RESOURCE_ERRORS = {
    *NO_ROOM_ERRORS,
    errno.EIO,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
    errno.EAGAIN,
    errno.ETIMEDOUT,
}
"""Error numbers of the operating system for an exhausted or failing resource."""
_CLOCK_OVERFLOW_MESSAGE = "timestamp too large"
"""CPython's message for a clock after 2262, whose nanoseconds since 1970 exceed 63 bits."""
_NO_THREAD_MESSAGE = "can't start new thread"
"""CPython's message when the operating system refuses to start a thread."""


E = TypeVar("E", bound="RescaleError")


class RescaleError(Exception):
    """Base of all errors with a sentence for the user; `exit_code` is the exit code of the process.

    `what` is the sentence. All other fields are optional, and printed on lines of their own: the place (`path`,
    `offset` in bytes, `operator`, `state`), the refused `option`, what was `expected` and `found`, and `advice`. Only
    bugs of Rescale have a `traceback`. The text goes into logs, documents and reports, so control characters in quoted
    names are escaped, and passwords in addresses are removed.
    """

    exit_code: ClassVar[int] = 1
    is_final: ClassVar[bool] = True
    DETAIL_NAMES: ClassVar[tuple[str, ...]] = (
        "path",
        "offset",
        "operator",
        "state",
        "option",
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
        option: str | None = None,
        expected: object = None,
        found: object = None,
        advice: str | None = None,
        traceback: str | None = None,
    ) -> None:
        self.what = without_secrets(what)
        self.path = None if path is None else without_secrets(path)
        # A loop that is not compiled returns integers of numpy, which JSON does not accept.
        self.offset = None if offset is None else int(offset)
        self.operator = operator
        self.state = state
        self.option = option
        self.expected = None if expected is None else _shortened(without_secrets(str(expected)))
        self.found = None if found is None else _shortened(without_secrets(str(found)))
        self.advice = advice
        self.traceback = (
            None if traceback is None else _shortened(without_secrets(traceback), _MOST_TRACEBACK_CHARACTERS)
        )
        super().__init__(self.what)

    def __str__(self) -> str:
        details = [
            f"  {_LABELS.get(name, name)}: {printable(str(getattr(self, name)))}"
            for name in self.DETAIL_NAMES
            if getattr(self, name) is not None and name != "traceback"
        ]
        if self.traceback is not None:
            details += ["  traceback:", textwrap.indent(printable_lines(self.traceback), "    ")]
        return "\n".join([printable(self.what), *details])

    def located(self, **details: Any) -> Self:
        """Set the given details (fields of the error) where the error has None, and return the error itself."""
        for name, value in details.items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        return self

    def recast(self, error_class: type[E], what: str, **changed: Any) -> E:
        """Return an `error_class` that says `what`, with this error's details except those in `changed`."""
        return error_class(what, **{**{name: getattr(self, name) for name in self.DETAIL_NAMES}, **changed})

    def document(self) -> ErrorDocument:
        """Return the error as a document, which `of_document` reads; UTF-8 can encode all its texts.

        The document names the nearest base class that this module defines, because every process knows these classes.
        """
        given_details = {name: getattr(self, name) for name in self.DETAIL_NAMES if getattr(self, name) is not None}
        details: dict[str, Any] = {
            name: encodable(value) if isinstance(value, str) else value for name, value in given_details.items()
        }
        if isinstance(self.advice, Advice):
            details["advice_parts"] = self.advice.document()
        class_names = (base.__name__ for base in type(self).__mro__)
        known_name = next((name for name in class_names if name in _CLASS_BY_NAME), RescaleError.__name__)
        return ErrorDocument(error=known_name, what=encodable(self.what), **details, exit_code=self.exit_code)

    @staticmethod
    def of_document(document: ErrorDocument) -> RescaleError:
        """Return the error from which `document` was made; an unknown class becomes a plain `RescaleError`."""
        error_class = _CLASS_BY_NAME.get(document.error, RescaleError)
        details = {name: getattr(document, name) for name in RescaleError.DETAIL_NAMES}
        if document.advice_parts is not UNSET:
            details["advice"] = Advice.of_document(document.advice_parts)
        return error_class(document.what, **{name: value for name, value in details.items() if value is not UNSET})

    def reword(self, word_mention: Callable[[Mention], str], word_option: Callable[[str], str]) -> None:
        """Reword the mentions in the advice, and the option, as for a form in Airflow."""
        if isinstance(self.advice, Advice):
            self.advice = self.advice.worded(word_mention)
        if self.option is not None:
            self.option = word_option(self.option)

    @staticmethod
    def from_text(class_name: str, text: str) -> RescaleError | None:
        """Return the error of class `class_name` that `str` printed as `text`, without its traceback.

        Returns None if this module has no class with the name `class_name`.
        """
        what, *lines = text.splitlines()
        name_by_label = {_LABELS.get(name, name): name for name in RescaleError.DETAIL_NAMES if name != "traceback"}
        labelled_lines = [line.removeprefix("  ").partition(": ") for line in lines]
        details: dict[str, Any] = {
            name_by_label[label]: value for label, _, value in labelled_lines if label in name_by_label
        }
        if "advice" in details:
            details["advice"] = advice_of_text(details["advice"])
        error_class = _CLASS_BY_NAME.get(class_name)
        return None if error_class is None else error_class(what, **details)

    def __reduce__(self) -> tuple[Any, ...]:
        return RescaleError.of_document, (self.document(),)


class RequestError(RescaleError):
    """The request is invalid or does not fit the snapshot, or the target is taken."""

    exit_code = 2


class LockedError(RequestError):
    """The store forbids deleting or replacing a file for now (S3 Object Lock), so temporary files may stay."""


class SnapshotError(RescaleError):
    """The snapshot is damaged, is not what it claims to be, or has changed since the plan was made."""

    exit_code = 3


class UnsupportedError(RescaleError):
    """The snapshot is valid, but Rescale cannot process it; `advice` names a workaround."""

    exit_code = 3


class IntegrityError(RescaleError):
    """The result is wrong, so the run publishes nothing."""

    exit_code = 4


class StoreError(RescaleError):
    """The network, a server or a disk failed: another try may succeed."""

    exit_code = 1
    is_final = False


class InternalError(RescaleError):
    """A bug of Rescale: an unexpected exception."""

    exit_code = 5

    @classmethod
    def from_exception(cls, exception: BaseException) -> InternalError:
        """Return the error for an unexpected exception."""
        message = tracebacks.format_exception_only(exception)[-1].strip()
        return cls.from_message(message, "".join(tracebacks.format_exception(exception)).rstrip())

    @classmethod
    def from_message(cls, message: str, traceback: str) -> InternalError:
        """Return the error for an exception of another process, from its message and its traceback."""
        return cls(
            "an unexpected error: this is a bug of Rescale",
            found=message,
            advice="another try would fail in the same way: report the error with its traceback",
            traceback=traceback,
        )


def as_rescale_error(exception: Exception) -> RescaleError:
    """Return a `RescaleError` as it is, and the error for any other exception.

    That is a `StoreError` for an exhausted resource, a `RequestError` for a wrong clock, and else an `InternalError`.
    """
    if isinstance(exception, RescaleError):
        return exception
    if isinstance(exception, OverflowError) and _CLOCK_OVERFLOW_MESSAGE in str(exception):
        return RequestError(
            "the clock of this machine shows a time that Python cannot represent",
            expected="a year before 2262",
            found=exception,
            advice=Advice("set the clock, then ", SAME_COMMAND),
        )
    is_exhausted = isinstance(exception, OSError) and exception.errno in _RESOURCE_ERRORS
    is_exhausted = is_exhausted or (isinstance(exception, RuntimeError) and str(exception) == _NO_THREAD_MESSAGE)
    if is_exhausted or isinstance(exception, MemoryError | ConnectionError | TimeoutError):
        return StoreError(
            "this machine, or one that it talks to, ran out of a resource",
            found=f"{type(exception).__name__}: {exception}",
            advice=Advice("check memory, disks and the network, and the output above, then ", SAME_COMMAND),
        )
    return InternalError.from_exception(exception)


def error_to_show(exception: Exception) -> RescaleError:
    """Return the error to show to a user; a `SnapshotError` without advice gets advice."""
    error = as_rescale_error(exception)
    if isinstance(error, SnapshotError):
        error.located(advice="use another snapshot: this one is damaged, or was changed after Flink had written it")
    return error


@contextmanager
def located(**details: Any) -> Iterator[None]:
    """Set the given details that a `RescaleError` from the block lacks."""
    try:
        yield
    except RescaleError as error:
        raise error.located(**details) from None


def in_option(flag: str) -> AbstractContextManager[None]:
    """Add the option, by its flag, to an error that is raised in the block."""
    return located(option=flag)


def _shortened(text: str, most_characters: int = _MOST_DETAIL_CHARACTERS) -> str:
    """Return the text; if it has more than `most_characters`, only both ends, so that the error stays readable."""
    if len(text) <= most_characters:
        return text
    half = most_characters // 2
    return f"{text[:half]} … {text[-half:]} ({len(text)} characters)"


_CLASS_BY_NAME: dict[str, type[RescaleError]] = {
    kind.__name__: kind
    for kind in (RequestError, LockedError, SnapshotError, UnsupportedError, IntegrityError, StoreError, InternalError)
}
