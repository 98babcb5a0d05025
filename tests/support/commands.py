"""The commands of the command line, as its parser has them."""

from __future__ import annotations

import argparse

from rescale.cli.main import parser


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command, by name."""
    (action,) = (one for one in parser()._actions if isinstance(one, argparse._SubParsersAction))
    return dict(action.choices)
