"""Hashes of keys by functions of the user's own."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from rescale.flink.keys.key_function import FunctionHash, import_function, is_function_name
from rescale.text.errors import RequestError

MODULE_CODE = """
import numpy as np

def first_byte(key):
    return key[0]

def of_numpy(key):
    return np.int32(-5)

def of_text(key):
    return "7"

unsigned = lambda key: 0xFFFFFFFF
smallest = lambda key: -(1 << 31)
too_large = lambda key: 1 << 32
too_small = lambda key: -(1 << 31) - 1
a_constant = 7
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_hashes.py").write_text(MODULE_CODE)
    (tmp_path / "broken_hashes.py").write_text("raise KeyError('at import')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("own_hashes", "broken_hashes"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def codes(name: str, keys: list[bytes]) -> list[int]:
    limits = np.cumsum([len(key) for key in keys], dtype=np.int64)
    starts = limits - np.array([len(key) for key in keys], dtype=np.int64)
    hash_codes = FunctionHash.load(name).hash_codes(np.frombuffer(b"".join(keys), np.uint8), starts, limits)
    assert hash_codes.dtype == np.int32
    return hash_codes.tolist()


def test_a_function_is_loaded_by_name() -> None:
    assert import_function("own_hashes:first_byte")(b"\x07\x08") == 7
    assert codes("own_hashes:first_byte", [b"\x07\x08", b"\xff", b"\0"]) == [7, 255, 0]
    assert codes("own_hashes:first_byte", []) == []


@pytest.mark.parametrize(("name", "code"), [("of_numpy", -5), ("unsigned", -1), ("smallest", -(1 << 31))])
def test_hash_of_a_function_is_taken_as_32_bits(name: str, code: int) -> None:
    assert codes(f"own_hashes:{name}", [b"a"]) == [code]


@pytest.mark.parametrize(
    ("name", "reason"),
    [("of_text", "TypeError"), ("too_large", "4294967296"), ("too_small", "-2147483649"), ("first_byte", "IndexError")],
)
def test_function_that_returns_no_hash_is_refused(name: str, reason: str) -> None:
    with pytest.raises(RequestError, match=f"own_hashes:{name}") as caught:
        codes(f"own_hashes:{name}", [b""])
    assert reason in (caught.value.found or "")


@pytest.mark.parametrize(
    "name",
    ["own_hashes", "own_hashes:", ":first_byte", "own_hashes:a b", "own hashes:f", "own_hashes:7", "a:b:c", "..x:f"],
)
def test_malformed_function_name_is_refused(name: str) -> None:
    assert not is_function_name(name)
    with pytest.raises(RequestError, match="does not name a function"):
        import_function(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("not_installed:f", "ModuleNotFoundError"),
        ("own_hashes:not_there", "AttributeError"),
        ("broken_hashes:f", "KeyError: 'at import'"),
        ("own_hashes:a_constant", "int"),
    ],
)
def test_function_that_cannot_be_loaded_is_refused(name: str, reason: str) -> None:
    assert is_function_name(name)
    with pytest.raises(RequestError) as caught:
        import_function(name)
    assert reason in (caught.value.found or "")
