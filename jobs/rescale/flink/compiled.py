"""Loops over bytes, compiled by numba where it is installed; without it Python runs them as they stand, slowly.

Tasks that move state always have numba; a plan only looks at a sample, and must do with what a small installation has.
Whoever imports a module with such loops waits most of a second for numba, so it is done where they are needed.

Machine code is kept on disk for the processes that follow, where a directory for it can be written to. Numba would take
what it finds there as long as the file of a loop is the same; but the loops and constants of other modules that it
names are compiled into it, so these count too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import EnumMeta
from types import CodeType, FunctionType, ModuleType
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from rescale.flink import compiling
from rescale.flink.arrays import Bytes

P = ParamSpec("P")
R = TypeVar("R")

Long = Any
"""An int64 to numba, whatever Python would make of it."""


def content(loop: Callable[..., Any]) -> str:
    """A digest of all that is compiled into a loop."""
    function: Any = loop
    return _content(getattr(function, "py_func", function), ())


def _content(function: FunctionType, above: tuple[FunctionType, ...]) -> str:
    """Of a loop that those `above` call, which need not be looked into again."""
    literals = [literal for literal in function.__code__.co_consts if not isinstance(literal, CodeType)]
    hasher = hashlib.sha256(repr((function.__code__.co_code, literals)).encode())
    for name, value in _named_in(function):
        inner = getattr(value, "py_func", None)
        if inner is None:
            told = list(value) if isinstance(value, EnumMeta) else value
            told = told if isinstance(told, int | float | str | tuple | list | np.generic) else None
        else:
            told = _content(inner, (*above, function)) if inner not in (*above, function) else None
        hasher.update(repr((name, told)).encode())
    return hasher.hexdigest()


def _named_in(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """(name, value) of all that a loop names: as it stands there, or as one of a module that stands there."""
    names = function.__code__.co_names
    own = [(name, function.__globals__.get(name)) for name in names]
    yield from own
    for module in (value for _, value in own if isinstance(value, ModuleType)):
        yield from ((name, getattr(module, name, None)) for name in names)


try:
    from numba import njit
    from numba.core.caching import FunctionCache, NullCache
except ModuleNotFoundError:

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        """The function as it is."""
        return function
else:

    class _LoopCache(FunctionCache):
        """Keeps machine code by the content of everything in it."""

        def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
            key: tuple[Any, ...] = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
            return (*key, content(self._py_func))

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = None
            try:
                found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except OSError:
                pass
            except Exception:  # a broken file: it begins anew
                with suppress(OSError):
                    self.flush()  # type: ignore[no-untyped-call]
            if found is None:
                compiling.begins(kept=True)
            return found

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError):  # such as a full disk
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    class _NoCache(NullCache):
        """Where numba finds no directory to keep machine code in."""

        def load_overload(self, sig: Any, target_context: Any) -> None:  # noqa: ARG002
            compiling.begins(kept=False)

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        """The function in machine code, which is kept on disk if that can be."""
        dispatcher: Any = njit(function)
        try:
            dispatcher._cache = _LoopCache(function)  # type: ignore[no-untyped-call]
        except RuntimeError:  # neither beside the module, nor below the home of whoever runs this
            dispatcher._cache = _NoCache()
        return cast(Callable[P, R], dispatcher)


@compiled
def copy_bytes(source: Bytes, begin: Long, end: Long, target: Bytes, at: Long) -> Long:
    """Copies `source[begin:end]` to `target` from `at` on; returns where they end there.

    A slice that is assigned takes twice to three times as long: numba minds that its places may be negative, one byte
    at a time. Unsigned ones cannot be.
    """
    for i in range(end - begin):
        target[np.uint64(at + i)] = source[np.uint64(begin + i)]
    return at + end - begin
