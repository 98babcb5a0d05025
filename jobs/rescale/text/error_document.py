"""An error as a JSON document: `RescaleError.document` returns it, and an interrupted command prints it."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from rescale.text.advice import AdvicePart


class ErrorDocument(msgspec.Struct, frozen=True, kw_only=True):
    """An error; unknown details are left out.

    `error` is the class of the error, `KeyboardInterrupt` for an interrupted command. `offset` is a position in the
    file `path`, in bytes. `advice_parts` are the parts of the advice: each is a text, or a mention of an option, a
    command or a setting (about, name, value, text).
    """

    error: str
    what: str
    path: str | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    operator: str | UnsetType = UNSET
    state: str | UnsetType = UNSET
    option: str | UnsetType = UNSET
    expected: str | UnsetType = UNSET
    found: str | UnsetType = UNSET
    advice: str | UnsetType = UNSET
    traceback: str | UnsetType = UNSET
    advice_parts: tuple[AdvicePart, ...] | UnsetType = UNSET
    exit_code: int
