"""Names of operators, states and files: untrusted text, which must be escaped, quoted, shortened and corrected."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from shlex import quote

_MOST_SUGGESTIONS = 3
_LEAST_SIMILARITY = 0.65
"""Smallest similarity of a suggested name, where 1 is the same name (`SequenceMatcher.ratio`)."""

_CHARS = r"[^\s\"'<>]{0,2000}"
"""Pattern of the characters of an address. The pattern limits their number, because names come from untrusted files."""
_SCHEME = r"\b(?!s3[ap]?:|file:)[a-z][a-z0-9+.-]{0,30}://"
_ACCESS_KEYS = rf"(?!arn:)[^/\s:]{{1,128}}:{_CHARS}"
"""Access key and secret in an address, as Hadoop once took them; the secret may contain a slash.

Bucket names have no colon, but ARNs of access points do.
"""
_USER_INFO = re.compile(rf"(\bs3[ap]?://)(?:{_ACCESS_KEYS}|[^/\s]{{0,2000}})@|({_SCHEME}){_CHARS}@", re.IGNORECASE)
"""User and password in an address; paths and keys in S3 may contain an `@` themselves."""
_QUERY = re.compile(r"(\bhttps?://[^\s\"'<>?]{0,2000}\?)[^\s\"'<>]+", re.IGNORECASE)


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL. Python has names for two of the real-time signals only."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def printable(text: str) -> str:
    """Return a text on one line, with control characters (such as ESC) escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def quoted(word: str) -> str:
    """Return a word quoted for a shell; control characters are escaped as in bash, zsh and ksh."""
    if word.isprintable():
        return quote(word)
    return f"$'{''.join(map(_ansi_c_escape, word))}'"


def _ansi_c_escape(char: str) -> str:
    if char in "\\'":
        return f"\\{char}"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encodable(text: str) -> str:
    """Return a text that UTF-8 can encode: unpaired surrogates, as in Java's strings, are escaped as in Python."""
    return text.encode("utf-8", "backslashreplace").decode()


def printable_lines(text: str) -> str:
    """Return a text with control characters other than line breaks escaped as in Python."""
    return "\n".join(map(printable, text.split("\n")))


def without_secrets(text: str) -> str:
    """Return a text without users and passwords in its addresses, and without the queries of signed addresses."""
    if "://" not in text:
        return text
    return _QUERY.sub(r"\1…", _USER_INFO.sub(lambda match: f"{match[1] or match[2]}…@", text))


def first_of(names: Sequence[str], limit: int, name_count: int | None = None) -> str:
    """Return at most `limit` names and the number of names left out, as in `a, b and 3 more`.

    `name_count` is the number of all names, if `names` has only the first of them.
    """
    omitted_count = (len(names) if name_count is None else name_count) - limit
    return ", ".join(names[:limit]) + (f" and {omitted_count:,} more" if omitted_count > 0 else "")


def did_you_mean(word: str, known_names: Iterable[str]) -> str | None:
    """Return a question with the known names most similar to the word; None if there is no similar name."""
    name_by_folded = {name.casefold(): name for name in known_names}
    similar_names = get_close_matches(word.casefold(), name_by_folded, _MOST_SUGGESTIONS, _LEAST_SIMILARITY)
    return (
        f"did you mean {' or '.join(repr(name_by_folded[name]) for name in similar_names)}?" if similar_names else None
    )
