"""What a shell completes (https://pypi.org/project/argcomplete): commands, options, their values, and operators."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from rescale.errors import RescaleError
from rescale.flink.metadata.reader import read_metadata
from rescale.planning.asked.request import parse_uids
from rescale.snapshot.discovery import find_metadata
from rescale.storage.locations import is_s3, normalise
from rescale.storage.store import open_store

_LARGEST_METADATA = 16 * 1024 * 1024
"""Bytes that are read at once while somebody waits."""


def complete(parser: argparse.ArgumentParser) -> None:
    """Ends the process with what the shell that has started it asked for."""
    import argcomplete  # which nobody else needs

    argcomplete.autocomplete(parser)


def complete_operators(action: argparse.Action, end: str = "=") -> None:
    """Lets an option that takes `UID=…`, or another `end`, be completed with the operators of SOURCE."""
    action.completer = partial(_operators, end)  # type: ignore[attr-defined]


def _operators(end: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Uids with the end; none of a snapshot in S3, which would take too long, nor names that a terminal would obey."""
    try:
        source = normalise(parsed_args.source if "source" in parsed_args else parsed_args.a)
        if is_s3(source):
            return []
        metadata = find_metadata(source)
        data, _pin = open_store(metadata).read_all(metadata, _LARGEST_METADATA)
        given = _given_names(parsed_args)
        names = [
            given.get(entry.operator_id) or entry.uid or entry.operator_id
            for entry in read_metadata(data, metadata).operators
        ]
    except (RescaleError, OSError, UnicodeError):
        return []
    return [f"{name}{end}" for name in names if name.isprintable()]


def _given_names(parsed_args: argparse.Namespace) -> dict[str, str]:
    """By operator id, as `--uids` gives them."""
    file = getattr(parsed_args, "uids", None)
    return dict(parse_uids(Path(file).read_text(encoding="utf-8-sig").splitlines())) if file else {}
