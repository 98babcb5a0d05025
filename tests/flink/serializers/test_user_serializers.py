"""Serializers that users register: the documented example, installed, from planning to the published result."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.steps import reshuffle_keyed_state
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.tasks.processes import process_tasks
from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.keys.java_strings import java_string_hash
from rescale.flink.release_line import RELEASE_LINES
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.registry import registered_rows
from rescale.flink.serializers.release_rules import Restores, reasons
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.user_serializer import UserSerializer
from rescale.plan.plan import Plan, plan_from_json, plan_to_json
from rescale.runstate.claim import claim
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, UnsupportedError
from support.canonical import Record
from support.heap import LONG as HEAP_LONG
from support.heap import Entry, HeapState, write_heap_group
from support.java_values import JavaType
from support.pipeline import execute, plan_rescale, shared_spark
from support.registering import MONEY, VALUES, example, find, install, nothing_stays_registered
from support.rekeyed import contents
from support.slow import slow
from support.snapshot_bytes import LONG, keyed_header, keyed_state, list_of, parsed, snapshot
from support.written import write_heap_savepoint, write_savepoint

__all__ = ["nothing_stays_registered"]

KEYS = [(cents, currency) for cents in (-1, 0, 7, 1 << 40) for currency in ("EUR", "USD", "JPY", "CHF", "SEK")]


@pytest.fixture(scope="module")
def installed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the distribution of the example."""
    sources, installed = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("installed")
    module, project = example()
    (sources / "money.py").write_text(module)
    (sources / "pyproject.toml").write_text(project)
    offline = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    pip = [sys.executable, "-m", "pip", "install", *offline, "--target", str(installed), str(sources)]
    subprocess.run(pip, check=True)
    return installed


def money(cents: int, currency: str) -> bytes:
    """Return a value as `LongSerializer` and `StringSerializer` write it."""
    return cents.to_bytes(8, "big", signed=True) + bytes((len(currency) + 1,)) + currency.encode()


def hash_code_of(cents: int, currency: str) -> int:
    """Return the `hashCode` of the Java record."""
    code = 31 * ((cents ^ cents >> 32) & 0xFFFFFFFF) + java_string_hash(currency) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


@pytest.fixture
def source(tmp_path: Path) -> str:
    """A savepoint keyed by money, of max parallelism 128."""
    groups: dict[int, list[Record]] = {}
    for key in KEYS:
        group = key_group_of_hash(hash_code_of(*key), 128)
        groups.setdefault(group, []).append(Record(0, money(*key) + b"\0", bytes(8)))
    header = keyed_header(keyed_state("total", LONG), key=snapshot(MONEY))
    return write_savepoint(tmp_path / "source", header, {group: sorted(rows) for group, rows in groups.items()}, 2, 128)


def run(source: str, target: Path, installed_folder: Path | None, *options: str) -> tuple[int, dict[str, object]]:
    """Return exit code and document of `rescale run` in a process that imports what is installed in `folder`."""
    environment = {**os.environ, **({} if installed_folder is None else {"PYTHONPATH": str(installed_folder)})}
    command = [sys.executable, "-m", "rescale", "run", source, "--target", str(target), "--parallelism", "3"]
    process = subprocess.run(
        [*command, "--max-parallelism", "1000", "--output", "json", *options],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, json.loads(process.stdout)


def check_key_groups(target: Path) -> None:
    """Check that a published result has each key in its key group of 1000."""
    (operator,) = (result := open_snapshot(str(target))).operators
    groups = {group: data for stream in operator.keyed for group, data in contents(result, stream) if data}
    assert set(groups) == {key_group_of_hash(hash_code_of(*key), 1000) for key in KEYS}
    for key in KEYS:
        assert money(*key) in groups[key_group_of_hash(hash_code_of(*key), 1000)]


def test_keys_of_a_registered_type_get_new_key_groups(
    source: str, installed_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exit_code, document = run(source, tmp_path / "target", installed_folder)
    assert (exit_code, document.get("what")) == (0, None)
    find(installed_folder, monkeypatch)
    check_key_groups(tmp_path / "target")


def test_worker_processes_load_the_row(
    source: str, installed_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(source, tmp_path / "target", installed_folder, monkeypatch)
    with process_tasks(2) as workers:
        execute(plan, workers)
    check_key_groups(tmp_path / "target")


@pytest.mark.parametrize(
    "values",
    [
        pytest.param("Sequence((Text(), Fixed(8, FixedHash.LONG)))", id="the fields swapped"),
        pytest.param("Sequence((Fixed(4, FixedHash.INTEGER), Text()))", id="a field of half its size"),
        pytest.param("Sequence((Fixed(8, FixedHash.DOUBLE), Text()))", id="the hash of another type"),
    ],
)
def test_wrong_row_stops_the_run(source: str, values: str, tmp_path: Path) -> None:
    wrong_module = example()[0].replace(VALUES, f"    values={values},")
    assert wrong_module != example()[0]
    install(tmp_path / "wrong", {"money": "money:MONEY"}, wrong_module)
    exit_code, document = run(source, tmp_path / "target", tmp_path / "wrong")
    assert (exit_code, document["error"], document["state"]) == (4, IntegrityError.__name__, "total")
    assert not (tmp_path / "target" / "_metadata").exists()


HASH_FUNCTION_CODE = """
from rescale.flink.keys.java_strings import java_string_hash

def code(key: bytes) -> int:
    cents = int.from_bytes(key[:8], "big", signed=True)
    return 31 * (cents ^ cents >> 32) + java_string_hash(key[9:].decode()) & 0xFFFFFFFF
"""


def test_function_hashes_keys_of_a_registered_type(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module_without_hash = example()[0].replace(VALUES, "    values=Sequence((Fixed(8), Text())),")
    install(tmp_path / "installed", {"money": "money:MONEY"}, module_without_hash + HASH_FUNCTION_CODE)
    assert run(source, tmp_path / "target", tmp_path / "installed")[0] == 3
    exit_code, document = run(source, tmp_path / "target", tmp_path / "installed", "--key-hash", "money:code")
    assert (exit_code, document.get("what")) == (0, None)
    find(tmp_path / "installed", monkeypatch)
    check_key_groups(tmp_path / "target")


class Money(JavaType):
    """The type of the example, as a value of heap state."""

    snapshot = snapshot(MONEY)
    values = st.nothing()

    def write(self, value: tuple[int, str]) -> bytes:
        return money(*value)


@pytest.fixture
def heap_source(tmp_path: Path) -> str:
    """A native savepoint of the hashmap backend with one subtask, long keys and `Money` values."""
    balance = HeapState("balance", HEAP_LONG, Money())
    groups: dict[int, list[Entry]] = {group: [] for group in range(16)}
    for number, value in enumerate(KEYS):
        groups[key_group_of_hash(HEAP_LONG.code(number), 16)].append(Entry(0, number, value))
    blocks = {
        group: write_heap_group(group, HEAP_LONG, [balance], {0: entries}, [0], snappy=False)
        for group, entries in groups.items()
    }
    return write_heap_savepoint(tmp_path / "source", [keyed_header(balance.info, key=HEAP_LONG.snapshot)], blocks, 16)


@pytest.mark.parametrize("result_format", ["canonical", slow("keep"), slow("rocksdb")])
def test_values_of_a_registered_type_are_delimited_in_the_format_of_the_heap(
    heap_source: str, installed_folder: Path, result_format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find(installed_folder, monkeypatch)
    target = str(tmp_path / "target")
    with process_tasks(2) as workers:
        execute(plan_rescale(heap_source, target, ["3"], max_parallelism=["1000"], format=result_format), workers)
    (operator,) = diff_snapshots(open_snapshot(heap_source), open_snapshot(target), InProcessTasks()).operators
    assert [(state.state, state.equal, state.b.count) for state in operator.states] == [("balance", True, len(KEYS))]


@pytest.mark.parametrize("values", ["Fixed(11)", slow("Sequence((Fixed(4), Text()))"), slow("Fixed(13)")])
def test_wrong_size_of_a_value_stops_the_run(heap_source: str, values: str, tmp_path: Path) -> None:
    install(tmp_path / "wrong", {"money": "money:MONEY"}, example()[0].replace(VALUES, f"    values={values},"))
    exit_code, document = run(heap_source, tmp_path / "target", tmp_path / "wrong")
    assert (exit_code, document["error"]) == (3, SnapshotError.__name__)
    assert document["advice"] == f"if the snapshot is not damaged, correct the row for {MONEY} in money 1.0"
    assert not (tmp_path / "target" / "_metadata").exists()


def test_without_the_distribution_the_keys_are_unknown(source: str, tmp_path: Path) -> None:
    exit_code, document = run(source, tmp_path / "target", None)
    assert (exit_code, document["error"]) == (3, UnsupportedError.__name__)


def plan_of(source: str, target: Path, installed_folder: Path, patch: pytest.MonkeyPatch) -> Plan:
    find(installed_folder, patch)
    return plan_rescale(source, str(target), ["3"], max_parallelism=["1000"])


def test_a_plan_names_the_distribution_and_is_refused_without_it(
    source: str, installed_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        plan = plan_of(source, tmp_path / "target", installed_folder, patch)
        document, pickled = plan_to_json(plan), pickle.dumps(plan)
        assert plan.serializers == (UserSerializer(MONEY, "money 1.0"),)
        assert any(MONEY in warning and "money 1.0" in warning for warning in plan.warnings)
        assert plan_from_json(document, "plan.json") == pickle.loads(pickled) == plan
    registered_rows.cache_clear()
    for load in (lambda: plan_from_json(document, "plan.json"), lambda: pickle.loads(pickled)):
        with pytest.raises(RequestError) as caught:
            load()
        assert MONEY in caught.value.what
        assert "money 1.0" in str(caught.value.expected)
    install(tmp_path / "newer", {"money": "money:MONEY"}, example()[0], version="1.1")
    find(tmp_path / "newer", monkeypatch)
    with pytest.raises(RequestError) as caught:
        plan_from_json(document, "plan.json")
    assert caught.value.found == "money 1.1"


def test_plan_without_user_serializers_has_no_serializers_field(tmp_path: Path) -> None:
    source = write_savepoint(tmp_path / "source", keyed_header(keyed_state("total", LONG)), {}, 2, 128)
    assert b"serializers" not in plan_to_json(plan_rescale(source, str(tmp_path / "target"), ["3"]))


@pytest.mark.slow
def test_workers_of_spark_without_the_distribution_refuse_the_plan(
    source: str, installed_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = shared_spark()  # its workers import what was installed when it started
    plan = plan_of(source, tmp_path / "target", installed_folder, monkeypatch)
    claim(plan)
    with pytest.raises(RequestError) as caught:
        reshuffle_keyed_state(plan, spark)
    assert "money 1.0" in str(caught.value.expected)


def test_serializer_missing_in_this_process_is_a_request_error(
    installed_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        find(installed_folder, patch)
        serializer = parsed(list_of(snapshot(MONEY)))
        assert type_name(serializer) == "List<Money>"
    registered_rows.cache_clear()
    with pytest.raises(RequestError):
        compile_program(serializer)


def test_restore_of_a_registered_type_is_unknown(installed_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find(installed_folder, monkeypatch)
    for line in RELEASE_LINES:
        (reason,) = reasons(SerializerSnapshot(MONEY, 3, b""), 1, line)
        assert reason.restores is Restores.UNKNOWN
