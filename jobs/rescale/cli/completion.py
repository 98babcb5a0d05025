"""Completion in a shell (https://pypi.org/project/argcomplete) of commands, options, their values, and operators."""

from __future__ import annotations

import argparse
from functools import partial

from rescale.flink.metadata.reader import read_metadata
from rescale.options.option import Option
from rescale.options.text_files import read_text
from rescale.planning.request.request import parse_uids
from rescale.snapshot.reading.discovery import find_metadata
from rescale.storage.locations import is_s3, normalise
from rescale.storage.store import open_store
from rescale.text.errors import RescaleError

_LARGEST_METADATA_BYTES = 16 * 1024 * 1024
"""Largest `_metadata` that a completion reads, in bytes."""


_SOURCE_ATTRIBUTES = ("source", "checkpoints", "a")
"""Attributes of argparse's namespace that hold the snapshot: a command has one of them, which may be None so far."""


def complete_operators(row: Option, action: argparse.Action) -> None:
    """Complete the operator at the start of a value, as in `UID=…`, with the operators of SOURCE."""
    if row.operator_separator is not None:
        action.completer = partial(_operator_uids, row.operator_separator)  # type: ignore[attr-defined]


def _operator_uids(suffix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the uids of the snapshot, each followed by `suffix`.

    Returns none for a snapshot in S3, because reading it takes too long. Names with control characters are left out.
    """
    try:
        places = (vars(parsed_args).get(attribute) for attribute in _SOURCE_ATTRIBUTES)
        source = normalise(next(filter(None, places), ""))
        if is_s3(source):
            return []
        metadata = find_metadata(source)
        data, _pin = open_store(metadata).read_all(metadata, _LARGEST_METADATA_BYTES)
        given_names = _given_names(parsed_args)
        names = [
            given_names.get(entry.operator_id) or entry.uid or entry.operator_id
            for entry in read_metadata(data, metadata).operators
        ]
    except (RescaleError, OSError, UnicodeError):
        return []
    return [f"{name}{suffix}" for name in names if name.isprintable()]


def _given_names(parsed_args: argparse.Namespace) -> dict[str, str]:
    """Return the names that `--uids` gives, by operator id."""
    file = getattr(parsed_args, "uids", None)
    return dict(parse_uids(read_text(file, "list of uids").splitlines())) if file else {}
