"""The hash of keys by a function of the user's own: `module:function`, from the bytes of a key to its `hashCode`.

The module is installed where the keys are moved, and imported there. What it does is checked as any other hash is: by
the key groups that the keys lie in.
"""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rescale.flink.arrays import Bytes, Codes, Longs
from rescale.text.errors import RequestError

KeyFunction = Callable[[bytes], int]

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_SMALLEST, _LARGEST = -(1 << 31), (1 << 32) - 1
"""32 bits, as Java counts them or without a sign."""


def names_function(name: str) -> bool:
    """Whether it is of the form `module:function`; nothing is imported."""
    return _NAME.fullmatch(name) is not None


def function_hash(name: str) -> KeyFunction:
    """The function `module:function`, which takes a serialized key (without its key group) and gives 32 bits.

    Raises `RequestError` if it cannot be had.
    """
    if not names_function(name):
        raise RequestError(f"{name!r} does not name a function", expected="module:function")
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # a module of the user's own can fail in any way
        raise RequestError(
            f"the function {name} that hashes keys cannot be imported",
            found=f"{type(error).__name__}: {error}",
            advice=f"install the module {module_name} where the state is moved",
        ) from error
    if not callable(function):
        raise RequestError(f"{name} is no function to hash keys with", found=type(function).__name__)
    hash_key: KeyFunction = function
    return hash_key


@dataclass(frozen=True)
class FunctionHash:
    """Applies the function `name` to keys in a buffer."""

    name: str
    function: KeyFunction

    @classmethod
    def load(cls, name: str) -> FunctionHash:
        return cls(name, function_hash(name))

    def codes(self, data: Bytes, starts: Longs, ends: Longs) -> Codes:
        """The hash of each key `data[starts[i]:ends[i]]`. `RequestError` if the function fails or gives no 32 bits."""
        places = zip(starts.tolist(), ends.tolist(), strict=True)
        codes = (self._code(data[start:end].tobytes()) for start, end in places)
        return np.fromiter(codes, np.int64, len(starts)).astype(np.int32)

    def _code(self, key: bytes) -> int:
        try:
            code = operator.index(self.function(key))
        except Exception as error:  # what the user's function raises, or gives
            raise RequestError(
                f"the function {self.name} fails on the key {key.hex()}",
                expected="a number of 32 bits",
                found=f"{type(error).__name__}: {error}",
            ) from error
        if not _SMALLEST <= code <= _LARGEST:
            raise RequestError(
                f"the function {self.name} gives too large a number for the key {key.hex()}",
                expected="a number of 32 bits, with a sign or without",
                found=code,
            )
        return code
