"""Hash of keys by the user's own function: `module:function` maps the bytes of a key to its `hashCode`.

Users install the module where the state is moved, such as on Spark workers. The results of the function are checked
like any other hash: they must give the key groups that contain the keys.
"""

from __future__ import annotations

import importlib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rescale.flink.arrays import Bytes, HashCodes, Longs
from rescale.text.errors import RequestError

KeyFunction = Callable[[bytes], int]

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_SMALLEST_RESULT, _LARGEST_RESULT = -(1 << 31), (1 << 32) - 1
"""Range of accepted results: numbers of 32 bits, signed (as in Java) or unsigned."""


def is_function_name(name: str) -> bool:
    """Whether the name has the form `module:function`; nothing is imported."""
    return _NAME.fullmatch(name) is not None


def import_function(name: str) -> KeyFunction:
    """Import the function `module:function`, which maps a serialized key (without its key group) to its hash.

    Raises `RequestError` if the name has another form, the import fails, or the object is not callable.
    """
    if not is_function_name(name):
        raise RequestError(f"{name!r} does not name a function", expected="module:function")
    module_name, _, function_name = name.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # a user's module can fail in any way
        raise RequestError(
            f"the function {name} that hashes keys cannot be imported",
            found=f"{type(error).__name__}: {error}",
            advice=f"install the module {module_name} where the state is moved",
        ) from error
    if not callable(function):
        raise RequestError(f"{name} cannot hash keys, because it is not a function", found=type(function).__name__)
    hash_key: KeyFunction = function
    return hash_key


@dataclass(frozen=True)
class FunctionHash:
    """Applies the function `name` to keys in a buffer."""

    name: str
    function: KeyFunction

    @classmethod
    def load(cls, name: str) -> FunctionHash:
        return cls(name, import_function(name))

    def hash_codes(self, data: Bytes, starts: Longs, ends: Longs) -> HashCodes:
        """Return the hash of each key `data[starts[i]:ends[i]]` (int32).

        Raises `RequestError` if the function fails or does not return a number of 32 bits.
        """
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        hash_codes = (self._hash_code(data[start:end].tobytes()) for start, end in spans)
        return np.fromiter(hash_codes, np.int64, len(starts)).astype(np.int32)

    def _hash_code(self, key: bytes) -> int:
        try:
            hash_code = operator.index(self.function(key))
        except Exception as error:  # the user's function can fail in any way, or return no number
            raise RequestError(
                f"the function {self.name} fails on the key {key.hex()}",
                expected="a number of 32 bits",
                found=f"{type(error).__name__}: {error}",
            ) from error
        if not _SMALLEST_RESULT <= hash_code <= _LARGEST_RESULT:
            raise RequestError(
                f"the function {self.name} returns a number of more than 32 bits for the key {key.hex()}",
                expected="a number of 32 bits, signed or unsigned",
                found=hash_code,
            )
        return hash_code
