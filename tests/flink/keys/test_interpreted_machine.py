"""Without numba, Python runs the machine uncompiled: slower, with the same results, also on damaged keys."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink import compiled
from rescale.flink.keys import machine, murmur
from rescale.flink.keys.lowering import lower
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.type_tree import Flagged, Product, TypeTree, WeightedSum, map_tree
from support.examples import examples
from support.java_composites import CaseClass, Either, List, Nullable, Pojo, Row, Tuple
from support.java_values import HASHABLE_LEAVES, ByteArray, JavaType
from support.snapshot_bytes import parsed

LEAVES = list(HASHABLE_LEAVES.values())
LONG, TEXT = HASHABLE_LEAVES["Long"], HASHABLE_LEAVES["String"]
NESTED = [
    Tuple([LONG, TEXT]),
    Row([LONG, ByteArray(), List(TEXT)]),
    Either(LONG, TEXT),
    List(Nullable(TEXT, 2)),
    CaseClass([LONG, TEXT]),
    Pojo({"a": LONG, "b": TEXT, "c": Pojo({"x": TEXT}, 0, 0, [])}, 0, 0, []),
]


def uncompiled_module(module: ModuleType, patch: pytest.MonkeyPatch) -> ModuleType:
    """Load the module again without numba, and return it; while `patch` holds, imports give this module."""
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location(f"uncompiled_{module.__name__}", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    patch.setattr(compiled, "compiled", lambda function: function)
    spec.loader.exec_module(loaded)
    patch.setitem(sys.modules, module.__name__, loaded)
    return loaded


with pytest.MonkeyPatch.context() as patched_modules:
    INTERPRETED_MURMUR, INTERPRETED_MACHINE = (
        uncompiled_module(module, patched_modules) for module in (murmur, machine)
    )
assert not hasattr(INTERPRETED_MACHINE.walk, "py_func")
assert not hasattr(INTERPRETED_MACHINE.mix, "py_func")
assert hasattr(machine.walk, "py_func")


def weighted_type(tree: TypeTree) -> TypeTree:
    """Return the type with large weights for its hash, so that sums exceed 64 bits."""
    match tree:
        case Flagged(fields=fields):
            weights = tuple((1 << 32) - 1 - i for i in range(len(fields)))
            return Flagged(tree.class_name, tree.names, fields, WeightedSum((1 << 32) - 1, weights, 43))
        case Product(fields):
            return Product(fields, default_hash=True)
    return tree


def walk_results(module: ModuleType, tree: TypeTree, keys: list[bytes]) -> list[list[int]]:
    code, depth = lower(tree)
    data = np.frombuffer(b"".join(keys), np.uint8)
    limits = np.cumsum([len(key) for key in keys], dtype=np.int64)
    starts = limits - np.array([len(key) for key in keys], dtype=np.int64)
    results: tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.uint8]]
    results = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int32), np.zeros(len(keys), np.uint8)
    with np.errstate(over="ignore"):
        module.walk(code, depth, data, starts, limits, *results)
    return [result.tolist() for result in results]


@given(data=st.data())
@settings(max_examples=examples(300))
def test_interpreted_and_compiled_walks_agree(data: st.DataObject) -> None:
    java_type: JavaType = data.draw(st.sampled_from([*LEAVES, *NESTED]))
    keys = [java_type.write(value) for value in data.draw(st.lists(java_type.values, min_size=1, max_size=3))]
    if data.draw(st.booleans()):
        damaged_key = bytearray(keys[0])
        if damaged_key:
            damaged_key[data.draw(st.integers(0, len(damaged_key) - 1))] = data.draw(st.integers(0, 255))
        keys.append(bytes(damaged_key[: data.draw(st.integers(0, len(damaged_key)))]))
    tree = map_tree(compile_program(parsed(java_type.snapshot)).tree, weighted_type)
    assert tree.hashable
    assert walk_results(INTERPRETED_MACHINE, tree, keys) == walk_results(machine, tree, keys)


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1)), st.integers(1, 32768))
def test_interpreted_and_compiled_key_groups_agree(hashes: list[int], max_parallelism: int) -> None:
    codes = np.array(hashes, np.int32)
    compiled_groups, interpreted_groups = np.zeros(len(codes), np.int32), np.zeros(len(codes), np.int32)
    murmur.fill_key_groups(codes, max_parallelism, compiled_groups)
    with np.errstate(over="ignore"):
        INTERPRETED_MURMUR.fill_key_groups(codes, max_parallelism, interpreted_groups)
    assert compiled_groups.tolist() == interpreted_groups.tolist()


@pytest.mark.slow
def test_hash_tests_pass_without_numba() -> None:
    """All tests of hashes of keys run in a process without numba, where a warning is an error."""
    pytest_without_numba = "import sys; sys.modules['numba'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    tests = [
        test for name in ("test_java_hash.py", "test_key_hash.py") for test in Path(__file__).parents[1].rglob(name)
    ]
    assert len(tests) == 2
    options = ["-q", "-x", "-W", "error", "-p", "no:cacheprovider", "--no-header"]
    process = subprocess.run(
        [sys.executable, "-c", pytest_without_numba, *options, *map(str, tests)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
