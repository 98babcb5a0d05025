"""A layer imports only what stands below it, at the top of a file or inside a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "jobs"
PACKAGE = ROOT / "rescale"

LAYERS = (
    {"errors"},
    {"flink"},
    {"storage"},
    {"rocksdb"},
    {"planning"},
    {"insight"},
    {"claim", "publish", "report"},
    {"process", "execution"},
    {"cli"},
    {"orchestration", "demo"},
)
"""From below; those of one layer may know one another."""

HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}
UPWARDS = {("cli.demo", "demo")}
"""`rescale demo` is the one command that starts what stands above."""

WITHOUT_INPUT_AND_OUTPUT = {"boto3", "pyspark", "airflow", "subprocess", "socket", "pathlib", "io", "tempfile"}


def modules(folder: Path = PACKAGE) -> Iterator[tuple[str, Path]]:
    """(name without `rescale.`, path)"""
    for path in sorted(folder.rglob("*.py")):
        yield ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"), path


def imported(path: Path) -> Iterator[str]:
    """The full names of all modules that a file imports from."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: imports are absolute"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "rescale")


def ours(path: Path) -> set[str]:
    """The layers' packages and modules among them."""
    return {name.split(".")[1] for name in imported(path) if name.startswith("rescale.")}


def test_every_module_belongs_to_a_layer() -> None:
    assert {name.split(".")[0] for name, _ in modules()} - {"__init__"} == HEIGHT.keys()


@pytest.mark.parametrize("layer", sorted(HEIGHT))
def test_a_layer_imports_only_what_stands_below(layer: str) -> None:
    wrong = [
        (name, other)
        for name, path in modules()
        if name.split(".")[0] == layer
        for other in ours(path)
        if HEIGHT[other] > HEIGHT[layer] and (name, other) not in UPWARDS
    ]
    assert wrong == []


def test_only_mains_know_what_spark_runs() -> None:
    assert [name for name, path in modules() if "execution" in ours(path) and not name.startswith("execution")] == []
    assert all("execution" in ours(path) for path in ROOT.glob("*.py"))


def test_formats_and_rules_of_flink_read_and_write_nothing() -> None:
    for name, path in modules(PACKAGE / "flink"):
        assert ours(path) <= {"flink", "errors"}, name
        assert not {one.split(".")[0] for one in imported(path)} & WITHOUT_INPUT_AND_OUTPUT, name
