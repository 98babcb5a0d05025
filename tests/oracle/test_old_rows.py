"""Old rows of states with a TTL are left out, and real Flink finds exactly the younger rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oracle.harness import Flink, Job
from rescale.flink.keyed.ttl.last_access import format_time
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow
from support.timed_rows import MAPS, TEXTS, VALUES, Rows, elements_of, rows_of, times_in, without_old

JOB = Job("everything", parallelism=3, parameters={"seed": 23}, max_parallelism=128)
STATES = (VALUES, TEXTS, MAPS)


def harness_texts(rows: Rows) -> dict[str, dict[str, str]]:
    """Return the rows of the states with a TTL by state and key, as the harness shows them."""
    texts: dict[str, dict[str, str]] = {f"states/{state}": {} for state in STATES}
    for key, value in rows.get(VALUES, {}).items():
        texts[f"states/{VALUES}"][texts_in(key)[0]] = str(int.from_bytes(value[8:], "big", signed=True))
    for key, value in rows.get(TEXTS, {}).items():
        elements = ", ".join(texts_in(element[8:])[0] for element in elements_of(value))
        texts[f"states/{TEXTS}"][texts_in(key)[0]] = f"[{elements}]"
    maps: dict[str, dict[str, int]] = {}
    for key, value in rows.get(MAPS, {}).items():
        name, _, kind = texts_in(key)
        maps.setdefault(name, {})[kind] = int.from_bytes(value[9:], "big", signed=True)
    for name, entries in maps.items():
        pairs = ", ".join(f"{kind}={number}" for kind, number in sorted(entries.items()))
        texts[f"states/{MAPS}"][name] = "{" + pairs + "}"
    return texts


def texts_in(data: bytes) -> list[str]:
    """Return the texts in the data, which lie end to end (`StringValue`); a void namespace counts as an empty text."""
    texts, rest = [], iter(data)
    for first_byte in rest:
        units = [_read_varint(next(rest), rest) for _ in range(_read_varint(first_byte, rest) - 1)]
        texts.append(b"".join(unit.to_bytes(2, "big") for unit in units).decode("utf-16-be"))
    return texts


def _read_varint(byte: int, rest: Iterator[int]) -> int:
    """Return the varint that begins with `byte`: seven bits in each byte, the lowest first."""
    return byte if byte < 0x80 else (byte & 0x7F) | _read_varint(next(rest), rest) << 7


@pytest.mark.parametrize(
    ("flink_fixture", "backend", "kind", "shape"),
    [
        pytest.param("flink_2", "rocksdb", "native", {"parallelism": ["2"]}, id="2, RocksDB"),
        slow("flink_2", "rocksdb", "native", {"max_parallelism": ["100"]}, id="2, RocksDB, rehashed"),
        slow("flink_2", "hashmap", "canonical", {}, id="2, canonical, same shape"),
        slow("flink_2", "hashmap", "native", {"format": "canonical"}, id="2, heap"),
        slow("flink_1_20", "rocksdb", "native", {"parallelism": ["2"]}, id="1.20, RocksDB"),
        slow("flink_1_20", "rocksdb", "checkpoint", {"parallelism": ["4"]}, id="1.20, RocksDB checkpoint"),
        slow("flink_1_20", "rocksdb", "canonical", {"max_parallelism": ["100"]}, id="1.20, canonical, rehashed"),
        slow("flink_1_20", "hashmap", "canonical", {"format": "rocksdb"}, id="1.20, into RocksDB"),
    ],
)
def test_flink_finds_exactly_the_rows_that_are_not_old(
    flink_fixture: str, backend: str, kind: str, shape: dict[str, Any], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    flink: Flink = request.getfixturevalue(flink_fixture)
    job = JOB.with_(backend=backend)
    source, target = str(flink.snapshot(job, tmp_path / "source", kind)), str(tmp_path / "target")
    rows_before = rows_of(source, "states")
    expected = flink.expected(job)["keyed"]
    assert {state: expected[state] for state in harness_texts(rows_before)} == harness_texts(rows_before)
    until = times_in(rows_before)[len(times_in(rows_before)) // 2 - 1]
    ages = [f"states:{state}={format_time(until)}" for state in STATES]
    plan = plan_rescale(source, target, ages=ages, **shape)
    execute_without_spark(plan)
    texts_after = harness_texts(without_old(rows_before, dict.fromkeys(STATES, until)))
    expected_differences = [
        f"{state}: key {key} is lost; expected {text}"
        if key not in texts_after[state]
        else f"{state}: key {key}: expected {text}, found {texts_after[state][key]}"
        for state, texts in harness_texts(rows_before).items()
        for key, text in texts.items()
        if texts_after[state].get(key) != text
    ]
    assert len(expected_differences) > 0
    (states_operator,) = (operator for operator in plan.operators if operator.cutoffs)
    rescaled_job = job.with_(
        parallelism=states_operator.new_parallelism,
        max_parallelism=states_operator.new_max_parallelism,
        backend="rocksdb" if shape.get("format") == "rocksdb" else backend,
    )
    verdict = flink.restore(target, job, rescaled_job, shown_count=100_000)
    assert sorted(difference for difference in verdict.differences if not difference.startswith("results")) == sorted(
        expected_differences
    )
    assert verdict.comparisons["keyed"] > len(expected_differences)
