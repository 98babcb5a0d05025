"""Reads text files that a user names: the file of an option, or a list of windows."""

from __future__ import annotations

from pathlib import Path

from rescale.text.errors import RequestError

LARGEST_TEXT_BYTES = 64 << 20
"""Largest text file in bytes: enough for a line for each of half a million operators or Kafka partitions.

The limit is compared with the number of bytes read, because a pipe has no size and a device may never end.
"""


class TooLargeError(ValueError):
    """A text file has more bytes than `LARGEST_TEXT_BYTES`."""


def read_limited(path: str | Path) -> str:
    """Return the text of a file or pipe, without a byte order mark.

    Raises `TooLargeError`, `OSError`, and `UnicodeError` if the text is not UTF-8.
    """
    with Path(path).open("rb") as file:
        data = file.read(LARGEST_TEXT_BYTES + 1)
    if len(data) > LARGEST_TEXT_BYTES:
        raise TooLargeError(f"more than {LARGEST_TEXT_BYTES:,} bytes")
    return data.decode("utf-8-sig")


def read_text(path: str, file_noun: str) -> str:
    """Return the text of an option's file. Raises `RequestError`, with `file_noun`, if it is unreadable."""
    try:
        return read_limited(path)
    except OSError as error:
        raise RequestError(
            f"the {file_noun} cannot be read: {error.strerror}", path=path, advice="name an existing file"
        ) from None
    except TooLargeError as error:
        raise RequestError(
            f"the {file_noun} cannot be read: it is too large, or does not end",
            path=path,
            expected=f"a text file of at most {LARGEST_TEXT_BYTES:,} bytes",
            found=error,
            advice="name another file",
        ) from None
    except UnicodeError as error:
        raise RequestError(
            f"the {file_noun} cannot be read: it is not text in UTF-8",
            path=path,
            found=error,
            advice="name another file, or save this one as text in UTF-8",
        ) from None
