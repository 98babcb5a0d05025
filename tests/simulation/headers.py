"""Removal of states from headers: the description of a state is cut out, and the other bytes stay.

A header has the number of states, and then the states; in operator state, broadcast states are listed separately. Only
the beginning of a description is parsed: a state ends where the next one begins.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Collection, Sequence

_KEYED_STATE = re.compile(rb"\x00[\x01-\x20]([ -~]+)\x00{4}\x00\x00\x00\x01\x00\x10.{16}", re.DOTALL)
_LIST_STATE = re.compile(rb"\x00[\x01-\x20]([ -~]+)\x00{3}\x01\x00\x00\x00\x01\x00\x20.{32}", re.DOTALL)
_BROADCAST_STATE = re.compile(rb"\x00[\x01-\x20]([ -~]+)\x00{3}\x02\x00\x00\x00\x01\x00\x20.{32}", re.DOTALL)
"""Patterns of the beginning of a state's description: its name, its kind, and its only option, `KEYED_STATE_TYPE` or
`OPERATOR_STATE_DISTRIBUTION_MODE`. Any bytes are accepted in place of the option's name, which may be damaged."""

_COUNT_BYTES = 2
"""Bytes of the number of states, which precedes the first state."""


def keyed_state_names(header: bytes) -> list[str]:
    return [match[1].decode() for match in _KEYED_STATE.finditer(header)]


def keyed_header_without(header: bytes, names: Collection[str]) -> bytes:
    return _without_states(header, _KEYED_STATE, names, len(header))


def keyed_header_with(header: bytes, descriptions: Sequence[bytes]) -> bytes:
    """Return the header with these states; new states follow those that the header already describes."""
    first_match = _KEYED_STATE.search(header)
    assert first_match is not None
    at = first_match.start() - _COUNT_BYTES
    for description in descriptions:
        if not {*keyed_state_names(description)} <= {*keyed_state_names(header)}:
            (count,) = struct.unpack_from(">h", header, at)
            header = header[:at] + struct.pack(">h", count + 1) + header[at + _COUNT_BYTES :] + description
    return header


def operator_header_without(header: bytes, names: Collection[str]) -> bytes:
    """Return the header without the list and broadcast states of these names; lists come first in a header."""
    first_broadcast = _BROADCAST_STATE.search(header)
    end = first_broadcast.start() - _COUNT_BYTES if first_broadcast is not None else len(header)
    broadcast = _without_states(header[end:], _BROADCAST_STATE, names, len(header) - end)
    return _without_states(header, _LIST_STATE, names, end) + broadcast


def _without_states(header: bytes, state_pattern: re.Pattern[bytes], names: Collection[str], end: int) -> bytes:
    """Return `header[:end]` without the states of these names; `state_pattern` matches where a state begins."""
    matches = list(state_pattern.finditer(header, 0, end))
    if not matches:
        return header[:end]
    begin = matches[0].start() - _COUNT_BYTES
    ends = [*(match.start() for match in matches[1:]), end]
    kept_descriptions = [
        header[match.start() : at] for match, at in zip(matches, ends, strict=True) if match[1].decode() not in names
    ]
    return header[:begin] + struct.pack(">h", len(kept_descriptions)) + b"".join(kept_descriptions)
