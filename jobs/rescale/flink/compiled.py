"""Decorator that compiles loops over bytes with numba; without numba, Python runs them unchanged, but slowly.

Tasks that move state always have numba. Planning reads only samples of the state, so it also works without numba.
Importing a module with compiled loops takes most of a second, so callers import it inside the function that needs it.

Machine code is cached on disk for later processes if there is a writable directory. Numba's own cache key covers only
the file of a loop. But machine code also contains the loops and constants of other modules that the loop uses, so the
cache key here covers these loops and constants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
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
"""An int64 in compiled code; mypy sees Any, because Python passes an int."""


def loop_digest(loop: Callable[..., Any]) -> str:
    """Return a digest of all that is compiled into a loop: its code, and the loops and constants that it names."""
    function: Any = loop
    return _digest_of(getattr(function, "py_func", function), ())


def _digest_of(function: FunctionType, callers: tuple[FunctionType, ...]) -> str:
    """Return the digest of a loop. The digest leaves out `callers`, the loops that call this loop, directly or not."""
    literals = [literal for literal in function.__code__.co_consts if not isinstance(literal, CodeType)]
    hasher = hashlib.sha256(repr((function.__code__.co_code, literals)).encode())
    for name, value in _used_globals(function):
        inner_loop = getattr(value, "py_func", None)
        if inner_loop is None:
            constant = list(value) if isinstance(value, EnumMeta) else value
            constant = constant if isinstance(constant, int | float | str | tuple | list | np.generic) else None
        else:
            constant = _digest_of(inner_loop, (*callers, function)) if inner_loop not in (*callers, function) else None
        hasher.update(repr((name, constant)).encode())
    return hasher.hexdigest()


def _used_globals(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of each global, and of each attribute of a module, that a loop uses."""
    names = function.__code__.co_names
    named_globals = [(name, function.__globals__.get(name)) for name in names]
    yield from named_globals
    for module in (value for _, value in named_globals if isinstance(value, ModuleType)):
        yield from ((name, getattr(module, name, None)) for name in names)


try:
    from numba import njit
    from numba.core.caching import FunctionCache, NullCache
except ModuleNotFoundError:

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        return function

    def load_cached_loops(modules: Collection[str]) -> None:
        """Load nothing."""
else:
    _loops: list[Any] = []

    class _LoopCache(FunctionCache):
        """Cache on disk whose keys include the digest of everything compiled into a loop."""

        def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
            key: tuple[Any, ...] = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
            return (*key, loop_digest(self._py_func))

        def cached_signatures(self, codegen: Any) -> list[Any]:
            """Return the signatures for which the cache has machine code of the current version of this loop."""
            with suppress(Exception):  # a damaged cache file, which `load_overload` removes
                keys = self._cache_file._load_index()  # type: ignore[no-untyped-call]
                return [key[0] for key in keys if key == self._index_key(key[0], codegen)]
            return []

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            overload = None
            try:
                overload = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
            except OSError:
                pass
            except Exception:  # a damaged cache file
                with suppress(OSError):
                    self.flush()  # type: ignore[no-untyped-call]
            if overload is None:
                compiling.notify_listeners(will_be_cached=True)
            return overload

        def save_overload(self, sig: Any, data: Any) -> None:
            with suppress(OSError):  # the disk may be full
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    class _NoCache(NullCache):
        """Cache that keeps nothing, because numba finds no writable directory."""

        def load_overload(self, sig: Any, target_context: Any) -> None:  # noqa: ARG002
            compiling.notify_listeners(will_be_cached=False)

        def cached_signatures(self, codegen: Any) -> list[Any]:  # noqa: ARG002
            return []

    def compiled(function: Callable[P, R]) -> Callable[P, R]:
        """Return the function compiled to machine code, which is cached on disk if possible.

        A compiled loop releases the GIL, so it must not write to arrays that another thread uses.
        """
        dispatcher: Any = njit(function, nogil=True)
        try:
            dispatcher._cache = _LoopCache(function)  # type: ignore[no-untyped-call]
        except RuntimeError:  # neither the module's directory nor the user's cache directory is writable
            dispatcher._cache = _NoCache()
        _loops.append(dispatcher)
        return cast(Callable[P, R], dispatcher)

    def load_cached_loops(modules: Collection[str]) -> None:
        """Load the machine code that earlier processes have cached for the loops of these imported modules.

        A process that waits for work does this in advance, because loading takes about 10 ms for each loop. If a loop
        calls functions of a library, load the library first: otherwise LLVM aborts the process.
        """
        for loop in _loops:
            if loop.__module__ in modules:
                for signature in loop._cache.cached_signatures(loop.targetctx.codegen()):
                    loop.compile(signature)


@compiled
def copy_bytes(source: Bytes, begin: Long, end: Long, target: Bytes, at: Long) -> Long:
    """Copy `source[begin:end]` to `target` at `at`; return the end of the copy in `target`.

    The indices are unsigned, so numba does not check their sign. Assigning a slice instead would take two to three
    times as long.
    """
    for i in range(end - begin):
        target[np.uint64(at + i)] = source[np.uint64(begin + i)]
    return at + end - begin


@compiled
def compare_bytes(data: Bytes, begin: Long, end: Long, other: Bytes, other_begin: Long, other_end: Long) -> Long:
    """Compare `data[begin:end]` with `other[other_begin:other_end]` as unsigned bytes: negative, 0 or positive."""
    size, other_size = end - begin, other_end - other_begin
    for i in range(min(size, other_size)):
        difference = np.int64(data[np.uint64(begin + i)]) - np.int64(other[np.uint64(other_begin + i)])
        if difference:
            return difference
    return size - other_size
