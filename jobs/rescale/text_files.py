"""Files of text that options name."""

from __future__ import annotations

from pathlib import Path

from rescale.errors import RequestError


def read_text(path: str, what: str) -> str:
    """A text file that was named; `RequestError` if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RequestError(
            f"the {what} cannot be read: {error.strerror}", path=path, advice="name a file that is there"
        ) from None
    except UnicodeError as error:
        raise RequestError(
            f"the {what} cannot be read: it is no text in UTF-8",
            path=path,
            found=error,
            advice="name another file, or save this one as text in UTF-8",
        ) from None
