"""Text files that a user names: an option's value, a list of windows."""

from __future__ import annotations

from pathlib import Path

from rescale.text.errors import RequestError

LARGEST_TEXT = 64 << 20
"""Bytes of the largest text file that is read: a line for each of half a million operators or Kafka partitions.

The size is not asked for, because a pipe has none and a device need not end.
"""


class TooLargeError(ValueError):
    """A text file has more bytes than `LARGEST_TEXT`."""


def read_limited(path: str | Path) -> str:
    """Return the text of a file or pipe, without a byte order mark.

    Raises `TooLargeError`, `OSError`, or `UnicodeError` where it is not UTF-8.
    """
    with Path(path).open("rb") as file:
        data = file.read(LARGEST_TEXT + 1)
    if len(data) > LARGEST_TEXT:
        raise TooLargeError(f"more than {LARGEST_TEXT:,} bytes")
    return data.decode("utf-8-sig")


def read_text(path: str, what: str) -> str:
    """Return the text of a file that an option names; `RequestError` if it cannot be read. `what` is in the error."""
    try:
        return read_limited(path)
    except OSError as error:
        raise RequestError(
            f"the {what} cannot be read: {error.strerror}", path=path, advice="name a file that is there"
        ) from None
    except TooLargeError as error:
        raise RequestError(
            f"the {what} cannot be read: it is too large, or does not end",
            path=path,
            expected=f"a text file of at most {LARGEST_TEXT:,} bytes",
            found=error,
            advice="name another file",
        ) from None
    except UnicodeError as error:
        raise RequestError(
            f"the {what} cannot be read: it is no text in UTF-8",
            path=path,
            found=error,
            advice="name another file, or save this one as text in UTF-8",
        ) from None
