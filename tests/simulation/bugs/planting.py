"""Planting of bugs: a function or another attribute of `rescale` is replaced during a block."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Planter = Callable[[], AbstractContextManager[Any]]
"""Function that returns a context manager, in whose block the bug is planted."""


@dataclass(frozen=True)
class Bug:
    """A bug to plant, which its `name` describes.

    A `native` bug shows only in histories of native state, and a bug of `rounds` only in histories of a round.
    """

    name: str
    plant: Planter
    native: bool = False
    rounds: bool = False


def function_planter(original: Callable[..., Any], replacement: Callable[..., Any]) -> Planter:
    """Return a planter that replaces a function wherever `rescale` has imported it."""

    _assert_same_signature(original, replacement)

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as stack:
            for module in [module for name, module in sys.modules.items() if _is_tested_module(name)]:
                for name, value in list(vars(module).items()):
                    if value is original:
                        stack.enter_context(patch.object(module, name, replacement))
            yield

    return planted


def attribute_planter(owner: type | object, name: str, replacement: Any) -> Planter:
    """Return a planter that replaces an attribute of a class or a module."""
    _assert_same_signature(getattr(owner, name), replacement)
    return lambda: patch.object(owner, name, replacement)


def both(first: Planter, second: Planter) -> Planter:
    @contextmanager
    def planted() -> Iterator[None]:
        with first(), second():
            yield

    return planted


def with_changed_result(original: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a function that calls `original` and changes its result."""

    def changed(*arguments: Any, **named: Any) -> Any:
        return change(original(*arguments, **named))

    return changed


def _assert_same_signature(original: Any, replacement: Any) -> None:
    """Assert that calls of the original fit the replacement: histories must find the bug, not a `TypeError`."""
    if not (callable(original) and callable(replacement)):
        return
    original_signature, other_signature = inspect.signature(original), inspect.signature(replacement)
    for with_defaults in (False, True):
        parameters = [
            parameter
            for parameter in original_signature.parameters.values()
            if with_defaults or parameter.default is parameter.empty
        ]
        keyword_arguments = {
            parameter.name: None for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY
        }
        positional_arguments = [
            parameter.name
            for parameter in parameters
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        try:
            other_signature.bind(*positional_arguments, **keyword_arguments)
        except TypeError as error:
            raise AssertionError(f"{replacement} does not accept the calls of {original}: {error}") from None


def _is_tested_module(module_name: str) -> bool:
    return module_name.startswith(("rescale.", "simulation.")) and not module_name.startswith("simulation.bugs")


def do_nothing(*_: Any, **__: Any) -> None:
    """Do nothing, in the place of a check."""
