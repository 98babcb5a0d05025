"""Serializers that users register: the documented example, installed, from planning to the published result."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescale.execution.steps import reshuffle_keyed_state
from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.keys.java_strings import java_string_hash
from rescale.flink.release_line import RELEASE_LINES
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.registry import GROUP, registered, row_of
from rescale.flink.serializers.release_rules import Restores, reasons
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.user_serializer import UserSerializer
from rescale.plan.plan import Plan, plan_from_json, plan_to_json
from rescale.runstate.claim import claim
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError, UnsupportedError
from support.canonical import Record
from support.pipeline import plan_rescale, shared_spark
from support.readme import DOCS
from support.rekeyed import contents
from support.snapshot_bytes import LONG, keyed_header, keyed_state, list_of, parsed, snapshot
from support.written import write_savepoint

MONEY = "com.example.MoneySerializer$MoneySnapshot"
KEYS = [(cents, currency) for cents in (-1, 0, 7, 1 << 40) for currency in ("EUR", "USD", "JPY", "CHF", "SEK")]


def example() -> tuple[str, str]:
    """The module and the `pyproject.toml` of the example in the documentation."""
    text = (DOCS / "how-to" / "serializers.md").read_text(encoding="utf-8")
    module, project = (re.findall(rf"^```{kind}\n(.*?)^```", text, re.M | re.S)[0] for kind in ("python", "toml"))
    return module, project


def install(folder: Path, points: dict[str, str], code: str, name: str = "money", version: str = "1.0") -> None:
    """Lay a distribution with a module and its entry points out as an installer does."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"{point} = {value}" for point, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines, ""]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the distribution of the example."""
    module, project = example()
    document = tomllib.loads(project)["project"]
    install(tmp_path / "installed", document["entry-points"][GROUP], module, document["name"], document["version"])
    return tmp_path / "installed"


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    registered.cache_clear()
    yield
    registered.cache_clear()
    sys.modules.pop("money", None)


def find(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.syspath_prepend(folder)
    registered.cache_clear()


def money(cents: int, currency: str) -> bytes:
    """A value as `LongSerializer` and `StringSerializer` write it."""
    return cents.to_bytes(8, "big", signed=True) + bytes((len(currency) + 1,)) + currency.encode()


def code_of(cents: int, currency: str) -> int:
    """`hashCode` of the Java record."""
    code = 31 * ((cents ^ cents >> 32) & 0xFFFFFFFF) + java_string_hash(currency) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A savepoint keyed by money, of max parallelism 128."""
    groups: dict[int, list[Record]] = {}
    for key in KEYS:
        group = key_group_of_hash(code_of(*key), 128)
        groups.setdefault(group, []).append(Record(0, money(*key) + b"\0", bytes(8)))
    header = keyed_header(keyed_state("total", LONG), key=snapshot(MONEY))
    return write_savepoint(tmp_path / "source", header, {group: sorted(rows) for group, rows in groups.items()}, 2, 128)


def run(source: str, target: Path, folder: Path | None, *options: str) -> tuple[int, dict[str, object]]:
    """Exit code and document of `rescale run` in a process that finds what is installed in `folder`."""
    environment = {**os.environ, **({} if folder is None else {"PYTHONPATH": str(folder)})}
    command = [sys.executable, "-m", "rescale", "run", source, "--target", str(target), "--parallelism", "3"]
    done = subprocess.run(
        [*command, "--max-parallelism", "1000", "--output", "json", *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("master", [(), pytest.param(("--master", "local[2]"), marks=pytest.mark.slow)])
def test_keys_of_a_registered_type_get_new_key_groups(
    source: str, folder: Path, master: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, document = run(source, tmp_path / "target", folder, *master)
    assert (code, document.get("what")) == (0, None)
    find(folder, monkeypatch)
    result = open_snapshot(str(tmp_path / "target"))
    (operator,) = result.operators
    groups = {group: data for stream in operator.keyed for group, data in contents(result, stream) if data}
    expected = {key_group_of_hash(code_of(*key), 1000) for key in KEYS}
    assert set(groups) == expected
    for key in KEYS:
        assert money(*key) in groups[key_group_of_hash(code_of(*key), 1000)]


def test_without_the_distribution_the_keys_are_unknown(source: str, tmp_path: Path) -> None:
    code, document = run(source, tmp_path / "target", None)
    assert (code, document["error"]) == (3, UnsupportedError.__name__)


def planned(source: str, target: Path, folder: Path, patch: pytest.MonkeyPatch) -> Plan:
    find(folder, patch)
    return plan_rescale(source, str(target), ["3"], max_parallelism=["1000"])


def test_a_plan_names_the_distribution_and_is_refused_without_it(
    source: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        plan = planned(source, tmp_path / "target", folder, patch)
        document, packed = plan_to_json(plan), pickle.dumps(plan)
        assert plan.serializers == (UserSerializer(MONEY, "money 1.0"),)
        assert any(MONEY in warning and "money 1.0" in warning for warning in plan.warnings)
        assert plan_from_json(document, "plan.json") == pickle.loads(packed) == plan
    registered.cache_clear()
    for load in (lambda: plan_from_json(document, "plan.json"), lambda: pickle.loads(packed)):
        with pytest.raises(RequestError) as refused:
            load()
        assert MONEY in refused.value.what
        assert "money 1.0" in str(refused.value.expected)
    install(tmp_path / "newer", {"money": "money:MONEY"}, example()[0], version="1.1")
    find(tmp_path / "newer", monkeypatch)
    with pytest.raises(RequestError) as refused:
        plan_from_json(document, "plan.json")
    assert refused.value.found == "money 1.1"


def test_a_plan_without_serializers_of_users_does_not_have_the_field(tmp_path: Path) -> None:
    source = write_savepoint(tmp_path / "source", keyed_header(keyed_state("total", LONG)), {}, 2, 128)
    assert b"serializers" not in plan_to_json(plan_rescale(source, str(tmp_path / "target"), ["3"]))


@pytest.mark.slow
def test_workers_of_spark_without_the_distribution_refuse_the_plan(
    source: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = shared_spark()  # its workers find what was there when it started
    plan = planned(source, tmp_path / "target", folder, monkeypatch)
    claim(plan)
    with pytest.raises(RequestError) as refused:
        reshuffle_keyed_state(plan, spark)
    assert "money 1.0" in str(refused.value.expected)


def test_a_header_that_comes_from_elsewhere_is_not_called_unknown(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        find(folder, patch)
        serializer = parsed(list_of(snapshot(MONEY)))
        assert type_name(serializer) == "List<Money>"
    registered.cache_clear()
    with pytest.raises(RequestError):
        compile_program(serializer)


def test_whether_another_flink_restores_it_is_for_the_job_to_say(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find(folder, monkeypatch)
    for line in RELEASE_LINES:
        (reason,) = reasons(SerializerSnapshot(MONEY, 3, b""), 1, line)
        assert reason.restores is Restores.UNKNOWN


@pytest.mark.parametrize(
    ("points", "code"),
    [
        ({"money": "money:GONE"}, ""),
        ({"money": "money:MONEY"}, "import nothing_of_that_name"),
        ({"money": "money:MONEY"}, "MONEY = 7"),
        ({"money": "money:MONEY"}, "from rescale.flink.serializers.rows.core import POJO as MONEY"),
        ({"money": "money:MONEY", "again": "money:MONEY"}, None),
    ],
)
def test_what_cannot_be_registered_is_refused(
    points: dict[str, str], code: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "wrong", points, example()[0] if code is None else code)
    find(tmp_path / "wrong", monkeypatch)
    with pytest.raises(RequestError, match=r"money 1\.0"):
        row_of(MONEY)
