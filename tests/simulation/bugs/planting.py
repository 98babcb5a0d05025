"""How a bug is planted: something of `rescale` is another one as long as a block runs."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

Plant = Callable[[], AbstractContextManager[Any]]
"""Gives a block in which the bug is there."""


@dataclass(frozen=True)
class Bug:
    """`name` says what is wrong; a `native` one shows in histories of native state alone."""

    name: str
    plant: Plant
    native: bool = False


def function(original: Callable[..., Any], other: Callable[..., Any]) -> Plant:
    """Wherever `rescale` has imported the function there is the other one."""

    _assert_taken_alike(original, other)

    @contextmanager
    def planted() -> Iterator[None]:
        with ExitStack() as ending:
            for module in [module for name, module in sys.modules.items() if _is_on_trial(name)]:
                for name, value in list(vars(module).items()):
                    if value is original:
                        ending.enter_context(patch.object(module, name, other))
            yield

    return planted


def method(owner: type | object, name: str, other: Any) -> Plant:
    """The class, or the module, has another one by that name."""
    _assert_taken_alike(getattr(owner, name), other)
    return lambda: patch.object(owner, name, other)


def both(plant: Plant, other: Plant) -> Plant:
    @contextmanager
    def planted() -> Iterator[None]:
        with plant(), other():
            yield

    return planted


def after(original: Callable[..., Any], change: Callable[[Any], Any]) -> Callable[..., Any]:
    """The same, and then its result is changed."""

    def changed(*arguments: Any, **named: Any) -> Any:
        return change(original(*arguments, **named))

    return changed


def _assert_taken_alike(original: Any, other: Any) -> None:
    """A call of the one must be a call of the other: else histories find that instead of the bug."""
    if not (callable(original) and callable(other)):
        return
    asked, taken = inspect.signature(original), inspect.signature(other)
    for every in (False, True):
        wanted = [parameter for parameter in asked.parameters.values() if every or parameter.default is parameter.empty]
        named = {parameter.name: None for parameter in wanted if parameter.kind is parameter.KEYWORD_ONLY}
        placed = [
            parameter.name
            for parameter in wanted
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        try:
            taken.bind(*placed, **named)
        except TypeError as error:
            raise AssertionError(f"{original} is called otherwise than {other}: {error}") from None


def _is_on_trial(module: str) -> bool:
    return module.startswith(("rescale.", "simulation.")) and not module.startswith("simulation.bugs")


def nothing(*_: Any, **__: Any) -> None:
    """Instead of a check."""
