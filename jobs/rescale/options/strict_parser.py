"""Argument parser that refuses a second value for an option with a single value."""

from __future__ import annotations

import argparse
from typing import Any


class StrictArgumentParser(argparse.ArgumentParser):
    """Parser that refuses abbreviated options, and repetition of an option that has a single value."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(allow_abbrev=False, **arguments)
        self._given_actions: set[argparse.Action] = set()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given_actions.clear()
        return super().parse_known_args(args, namespace)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.option_strings and isinstance(
            action, argparse._StoreAction
        ):  # options with other actions keep all their values, or are flags
            if action in self._given_actions:
                raise argparse.ArgumentError(action, "given more than once, and only one value is taken")
            self._given_actions.add(action)
        if action.option_strings and arg_strings == ["--"]:
            # Before Python 3.13, argparse takes this value, as in `--drop=--`, for the end of the options.
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)
