"""Removal of states from headers: the description of a state is cut out, and the other bytes stay.

A header has the number of states, and then the states; in operator state, broadcast states are listed separately. Only
the beginning of a description is parsed: a state ends where the next one begins.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Sequence

_KEYED = re.compile(rb"\x00[\x01-\x20]([ -~]+)\x00{4}\x00\x00\x00\x01\x00\x10.{16}", re.DOTALL)
_LISTED = re.compile(rb"\x00[\x01-\x20]([ -~]+)\x00{3}\x01\x00\x00\x00\x01\x00\x20.{32}", re.DOTALL)
_BROADCAST = re.compile(rb"\x00[\x01-\x20]([ -~]+)\x00{3}\x02\x00\x00\x00\x01\x00\x20.{32}", re.DOTALL)
"""Patterns of the beginning of a state's description: its name, its kind, and its only option, `KEYED_STATE_TYPE` or
`OPERATOR_STATE_DISTRIBUTION_MODE`. Any bytes are accepted in place of the option's name, which may be damaged."""

_COUNT_BYTES = 2
"""Bytes of the number of states, which precedes the first state."""


def keyed_names(header: bytes) -> list[str]:
    return [match[1].decode() for match in _KEYED.finditer(header)]


def keyed_without(header: bytes, names: Collection[str]) -> bytes:
    return _without(header, _KEYED, names, len(header))


def keyed_with(header: bytes, states: Sequence[bytes]) -> bytes:
    """Return the header with these states; new states follow those that the header already describes."""
    first = _KEYED.search(header)
    assert first is not None
    at = first.start() - _COUNT_BYTES
    for state in states:
        if not {*keyed_names(state)} <= {*keyed_names(header)}:
            (count,) = struct.unpack_from(">h", header, at)
            header = header[:at] + struct.pack(">h", count + 1) + header[at + _COUNT_BYTES :] + state
    return header


def operator_without(header: bytes, names: Collection[str]) -> bytes:
    """Return the header without the list and broadcast states of these names; lists come first in a header."""
    first_broadcast = _BROADCAST.search(header)
    end = first_broadcast.start() - _COUNT_BYTES if first_broadcast is not None else len(header)
    broadcast = _without(header[end:], _BROADCAST, names, len(header) - end)
    return _without(header, _LISTED, names, end) + broadcast


def _without(header: bytes, state: re.Pattern[bytes], names: Collection[str], end: int) -> bytes:
    """Return `header[:end]` without the states of these names; the pattern `state` matches where a state begins."""
    matches = list(state.finditer(header, 0, end))
    if not matches:
        return header[:end]
    begin = matches[0].start() - _COUNT_BYTES
    ends = [*(match.start() for match in matches[1:]), end]
    kept = [
        header[match.start() : at] for match, at in zip(matches, ends, strict=True) if match[1].decode() not in names
    ]
    return header[:begin] + struct.pack(">h", len(kept)) + b"".join(kept)
