"""Names that others gave, of operators, states and files: data, whoever is shown them, and easily misspelt."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from shlex import quote

_MOST_NEAR = 3
_NEAR = 0.65
"""Of 1, which the same word is (`SequenceMatcher.ratio`)."""

_SIGNS = r"[^\s\"'<>]{0,2000}"
"""Bounded, as schemes are: names come out of files that anybody may have made."""
_SCHEME = r"\b(?!s3[ap]?:|file:)[a-z][a-z0-9+.-]{0,30}://"
_KEYS = rf"(?!arn:)[^/\s:]{{1,128}}:{_SIGNS}"
"""As Hadoop once took them: the second one may have a slash. No bucket has a colon, but the ARN of an access point."""
_USER_INFO = re.compile(rf"(\bs3[ap]?://)(?:{_KEYS}|[^/\s]{{0,2000}})@|({_SCHEME}){_SIGNS}@", re.IGNORECASE)
"""A key in S3, or a path, may have the sign itself."""
_QUERY = re.compile(r"(\bhttps?://[^\s\"'<>?]{0,2000}\?)[^\s\"'<>]+", re.IGNORECASE)


def printable(words: str) -> str:
    """The words on one line, with what a terminal would obey (control characters, such as ESC) as Python writes it."""
    if words.isprintable():
        return words
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in words)


def quoted(word: str) -> str:
    """The word as a shell takes it; what a terminal would obey in it stands as bash, zsh and ksh write that."""
    if word.isprintable():
        return quote(word)
    return f"$'{''.join(map(_in_ansi_c_quotes, word))}'"


def _in_ansi_c_quotes(sign: str) -> str:
    if sign in "\\'":
        return f"\\{sign}"
    if sign.isprintable():
        return sign
    code = ord(sign)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def encodable(words: str) -> str:
    """The words as documents can have them: a half of a surrogate pair, which Java writes, as Python writes it."""
    return words.encode("utf-8", "backslashreplace").decode()


def printable_lines(text: str) -> str:
    """The same of every line of a text."""
    return "\n".join(map(printable, text.split("\n")))


def without_secrets(words: str) -> str:
    """The words, but of the addresses among them neither user and password, nor what a signed one has as its query."""
    if "://" not in words:
        return words
    return _QUERY.sub(r"\1…", _USER_INFO.sub(lambda found: f"{found[1] or found[2]}…@", words))


def first_of(names: Sequence[str], most: int, number: int | None = None) -> str:
    """`a, b and 3 more`: of a long list no more than so many are named. `number` counts those not in `names`, too."""
    left = (len(names) if number is None else number) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A question after those known names that are nearest to the word; None if there are none near it."""
    by_folded = {name.casefold(): name for name in known}
    near = get_close_matches(word.casefold(), by_folded, _MOST_NEAR, _NEAR)
    return f"did you mean {' or '.join(repr(by_folded[name]) for name in near)}?" if near else None
