"""How a mutant takes the place of a function, in this process."""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import CodeType, FunctionType
from typing import Any

from mutation.mutants import Mutant

_INSTALLED = (sys.prefix, sys.base_prefix, "<")


class Planter:
    """Knows the functions that there are, and what is kept of their results, from before any fork."""

    def __init__(self, files: Iterable[str]) -> None:
        wanted = frozenset(files)
        self._functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        self._kept: list[Any] = []
        self._loops: list[Any] = []
        gc.unfreeze()  # what a test has frozen is not told
        for living in gc.get_objects():
            if (
                type(living) is FunctionType and (code := living.__code__).co_filename in wanted
            ):  # a proxy would load what it is of
                key = code.co_filename, code.co_qualname, code.co_firstlineno
                self._functions.setdefault(key, []).append(living)
            elif type(living) is functools._lru_cache_wrapper and _is_own(living.__wrapped__):
                self._kept.append(living)
            elif type(living).__name__ == "CPUDispatcher":
                self._loops.append(living)
        gc.freeze()

    def places(self, mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
        """Return the functions and their new code; none if a name of an outer scope is unused, which Python refuses."""
        replacements = [
            (function, code)
            for name, line, code in _codes(mutant.code)
            if name == mutant.function
            for function in self._functions.get((str(mutant.path), name, line), ())
        ]
        if not replacements:
            raise LookupError(f"{mutant.place} is not imported")
        return (
            []
            if any(function.__code__.co_freevars != code.co_freevars for function, code in replacements)
            else replacements
        )

    def plant(self, places: Sequence[tuple[FunctionType, CodeType]]) -> None:
        """From now on the function is the mutant in this process, wherever it is known."""
        for function, code in places:
            function.__code__ = code
        for kept in self._kept:
            kept.cache_clear()
        changed = {id(function) for function, _ in places}
        for loop in self._loops:
            if id(loop.py_func) in changed:
                _compile_again(loop)


def _is_own(function: Any) -> bool:
    """Neither Python's nor of a package that is installed."""
    return isinstance(function, FunctionType) and not function.__code__.co_filename.startswith(_INSTALLED)


def _compile_again(loop: Any) -> None:
    """Compile a loop of numba again, without its cache of files."""
    from numba.core.caching import NullCache

    loop._cache = NullCache()
    loop.recompile()


def _codes(code: CodeType) -> Iterator[tuple[str, int, CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant.co_qualname, constant.co_firstlineno, constant
            yield from _codes(constant)
