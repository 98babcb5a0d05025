"""A registration that cannot be used is refused with the name of its distribution, and of its class if it has one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.registry import row_of
from rescale.text.errors import RequestError
from support.pipeline import plan_rescale
from support.registering import MONEY, VALUES, example, find, install, nothing_stays_registered
from support.snapshot_bytes import LONG, keyed_header, keyed_state, parsed, snapshot
from support.written import write_savepoint

__all__ = ["nothing_stays_registered"]


@pytest.mark.parametrize(
    ("entry_points", "code", "sentence"),
    [
        ({"money": "money:GONE"}, "", "AttributeError"),
        ({"money": "money:MONEY"}, "import nothing_of_that_name", "nothing_of_that_name"),
        ({"money": "money:MONEY"}, "import sys; sys.exit(3)", "SystemExit: 3"),
        ({"money": "money:MONEY"}, "MONEY = 7", "found: 7"),
        ({"money": "money:MONEY"}, "from rescale.flink.serializers.rows.core import POJO as MONEY", "PojoSerializer"),
        ({"money": "money:MONEY", "again": "money:MONEY"}, None, f"{MONEY} has a row of money 1.0"),
    ],
)
def test_invalid_registration_is_refused(
    entry_points: dict[str, str], code: str | None, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "wrong", entry_points, example()[0] if code is None else code)
    find(tmp_path / "wrong", monkeypatch)
    with pytest.raises(RequestError) as caught:
        row_of(MONEY)
    assert "money 1.0" in caught.value.what
    assert sentence in str(caught.value)


def test_two_distributions_must_not_register_the_same_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("cash", "money"):
        install(tmp_path / name, {name: f"{name}:MONEY"}, example()[0], name)
        find(tmp_path / name, monkeypatch)
    with pytest.raises(RequestError) as caught:
        row_of(MONEY)
    assert {"cash 1.0", "money 1.0"} <= set(re.findall(r"\w+ 1\.0", f"{caught.value.what} {caught.value.expected}"))
    assert MONEY in str(caught.value.expected)


def test_plan_refuses_a_row_for_a_class_of_flink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(
        tmp_path / "wrong", {"own": "own:OWN"}, "from rescale.flink.serializers.rows.core import POJO as OWN", "own"
    )
    find(tmp_path / "wrong", monkeypatch)
    source = write_savepoint(tmp_path / "source", keyed_header(keyed_state("total", LONG)), {}, 2, 128)
    with pytest.raises(RequestError, match=r"own 1\.0") as caught:
        plan_rescale(source, str(tmp_path / "target"), ["3"])
    assert "PojoSerializerSnapshot has a row of Rescale itself" in str(caught.value.expected)


@pytest.mark.parametrize(
    ("line", "changed_line", "sentence"),
    [
        (VALUES, "    values=Sequence([Fixed(8), Text()]),", "unhashable type"),
        (VALUES, "    values=Sequence((Fixed, Text())),", "not a type of type_tree"),
        (VALUES, "    values=Sequence(Fixed(8)),", "not iterable"),
        (VALUES, "    values=lambda snapshot, tree_of: 1 / 0,", "ZeroDivisionError"),
        (VALUES, "    values=lambda snapshot, tree_of: 7,", "not a type of type_tree: 7"),
        (VALUES, "    values=Fixed(4, FixedHash.LONG),", "no value that hashes as LONG has 4 bytes"),
        (VALUES, "    values=Fixed(-8),", "-8 bytes"),
        ("layout=simple", "layout=None", "layout must be a function"),
        ("layout=simple", "layout=lambda body: body.gone()", "AttributeError"),
        ('name="Money"', 'name="Money {currency}"', "KeyError: 'currency'"),
        ('versions={3: "1.0"}', "versions=(3,)", "versions must be releases"),
    ],
)
def test_fault_of_a_row_names_its_distribution(
    line: str, changed_line: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert line in example()[0]
    install(tmp_path / "wrong", {"money": "money:MONEY"}, example()[0].replace(line, changed_line))
    find(tmp_path / "wrong", monkeypatch)
    with pytest.raises(RequestError) as caught:
        compile_program(parsed(snapshot(MONEY)))
    assert "money 1.0" in caught.value.what
    assert sentence in str(caught.value.found)
