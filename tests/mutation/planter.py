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
        for one in gc.get_objects():
            if (
                type(one) is FunctionType and (code := one.__code__).co_filename in wanted
            ):  # a proxy would load what it is of
                key = code.co_filename, code.co_qualname, code.co_firstlineno
                self._functions.setdefault(key, []).append(one)
            elif type(one) is functools._lru_cache_wrapper and _is_own(one.__wrapped__):
                self._kept.append(one)
            elif type(one).__name__ == "CPUDispatcher":
                self._loops.append(one)
        gc.freeze()

    def places(self, mutant: Mutant) -> list[tuple[FunctionType, CodeType]]:
        """What becomes what; none where a name of an outer scope is used no more, which Python does not allow."""
        found = [
            (one, code)
            for name, line, code in _codes(mutant.code)
            if name == mutant.function
            for one in self._functions.get((str(mutant.path), name, line), ())
        ]
        if not found:
            raise LookupError(f"{mutant.place} is not imported")
        return [] if any(one.__code__.co_freevars != code.co_freevars for one, code in found) else found

    def plant(self, places: Sequence[tuple[FunctionType, CodeType]]) -> None:
        """From now on the function is the mutant in this process, wherever it is known."""
        for one, code in places:
            one.__code__ = code
        for kept in self._kept:
            kept.cache_clear()
        changed = {id(one) for one, _ in places}
        for loop in self._loops:
            if id(loop.py_func) in changed:
                _compile_again(loop)


def _is_own(function: Any) -> bool:
    """Neither Python's nor of a package that is installed."""
    return isinstance(function, FunctionType) and not function.__code__.co_filename.startswith(_INSTALLED)


def _compile_again(loop: Any) -> None:
    """Of numba; what it compiles now is not kept in files."""
    from numba.core.caching import NullCache

    loop._cache = NullCache()
    loop.recompile()


def _codes(code: CodeType) -> Iterator[tuple[str, int, CodeType]]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one.co_qualname, one.co_firstlineno, one
            yield from _codes(one)
