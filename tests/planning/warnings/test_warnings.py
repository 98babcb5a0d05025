"""Warnings of a plan whose result may surprise."""

from __future__ import annotations

from typing import Any

import pytest

from rescale.text.errors import RequestError
from support.pipeline import plan_rescale
from support.snapshots import directory

HEAP_TIMERS_OPTION = "timer-service.factory: HEAP"


def warnings_of(name: str, **options: Any) -> str:
    return "\n".join(plan_rescale(directory(name), "/nowhere/target", ["3"], **options).warnings)


@pytest.mark.parametrize(
    ("name", "result_format", "is_warned"),
    [
        ("2-windows", "rocksdb", True),
        ("2-windows", "keep", False),
        ("2-windows", "canonical", False),
        ("2-rocksdb-native", "rocksdb", False),
        ("2-rocksdb-heap-timers", "rocksdb", False),
        ("1.15.4-full-heap-timers", "rocksdb", False),
        ("2-changelog-over-heap", "rocksdb", True),
        ("2-changelog-over-rocksdb", "rocksdb", False),
    ],
)
def test_canonical_timers_that_would_move_into_rocksdb_give_a_warning(
    name: str, result_format: str, is_warned: bool
) -> None:
    """Raw keyed timers, and timers in a database, stay where the job keeps them."""
    assert (HEAP_TIMERS_OPTION in warnings_of(name, format=result_format)) is is_warned


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("2-rocksdb-native", {"files": "refer"}, "the result refers to"),
        ("2-rocksdb-native", {"files": "refer", "max_parallelism": ["64"]}, "does not depend on the source"),
        ("2-rocksdb-native", {"files": "refer", "format": "canonical"}, "does not depend on the source"),
        ("2-windows", {"files": "refer", "format": "rocksdb"}, "does not depend on the source"),
        ("2-rocksdb-native", {}, ""),
    ],
)
def test_plan_says_whether_the_result_refers_to_source_files(name: str, options: dict[str, Any], sentence: str) -> None:
    warnings = warnings_of(name, **options)
    outcomes = ("the result refers to", "does not depend on the source")
    assert [warnings.count(outcome) for outcome in outcomes] == [int(outcome == sentence) for outcome in outcomes]


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("2-changelog-over-heap", {"format": "canonical"}, "start it in CLAIM mode (-restoreMode claim), or without"),
        ("1.20-changelog-over-rocksdb", {}, "start it in CLAIM mode (-restoreMode claim), or without"),
        ("2-changelog-over-rocksdb", {"files": "refer"}, "start it without"),
    ],
)
def test_plan_says_how_to_start_a_job_with_a_changelog(name: str, options: dict[str, Any], sentence: str) -> None:
    assert f"the job has a changelog: {sentence} its changelog" in warnings_of(name, **options)
    assert "changelog" not in warnings_of("2-rocksdb-native")


@pytest.mark.parametrize("name", ["2-clicks", "2-rocksdb-native"])
def test_operators_without_keyed_state_get_no_empty_warning(name: str) -> None:
    warnings = warnings_of(name, format="rocksdb").split("\n")
    assert [warning for warning in warnings if warning.endswith(": ")] == []


def test_operators_without_a_referred_file_are_named() -> None:
    warnings = warnings_of("2-rocksdb-lost-timers", files="refer", max_parallelism=["count=64", "session=64"])
    assert "count, session: no file can be referred to" in warnings
    assert "the result refers to" in warnings


@pytest.mark.parametrize(
    ("name", "parallelism", "is_warned"),
    [
        ("2-windows", ["1"], True),
        ("2-windows", ["count=1"], True),
        ("2-windows", ["2"], False),
        ("2-windows", [], False),
        ("2-clicks", ["1"], False),
    ],
)
def test_parallelism_1_beside_operators_with_max_parallelism_1_warns(
    name: str, parallelism: list[str], is_warned: bool
) -> None:
    warnings = "\n".join(plan_rescale(directory(name), "/nowhere/target", parallelism).warnings)
    assert ("Such a chain gets max parallelism 1" in warnings) is is_warned


@pytest.mark.parametrize(
    ("name", "parallelism", "sentence"),
    [
        (
            "2-clicks",
            ["2", "visits=6", "shards=3"],
            "parallelism 2, which not all operators have: visits has 6, shards has 3.",
        ),
        ("2-clicks", ["visits=6"], "parallelism 4, which not all operators have: visits has 6."),
        ("2-clicks", ["6"], ""),
        ("2-windows", ["6"], ""),
        ("2-lazy", [], ""),
    ],
)
def test_operators_with_another_parallelism_than_most_give_a_warning(
    name: str, parallelism: list[str], sentence: str
) -> None:
    """Operators that always have one subtask, and plans without a change, give no warning."""
    warnings = "\n".join(plan_rescale(directory(name), "/nowhere/target", parallelism).warnings)
    assert ("which not all operators have" in warnings) is bool(sentence)
    assert sentence in warnings


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"key_hash": ["visits=keys:hash"]}, "visits: its keys are not hashed"),
        ({"key_hash": ["keys:hash"]}, "every key that is hashed has a known hash"),
        ({"key_hash": ["clicks=java"], "max_parallelism": ["1000"]}, "clicks: its keys are not hashed"),
        ({"key_hash": ["keys:hash"], "max_parallelism": ["1000"]}, "every key that is hashed has a known hash"),
        ({"key_hash": ["java", "visits=keys:hash"], "max_parallelism": ["1000"]}, ""),
        ({"max_parallelism": ["1000"]}, ""),
    ],
)
def test_unused_key_hash_gives_a_warning(options: dict[str, Any], sentence: str) -> None:
    warnings = warnings_of("2-clicks", **options)
    assert ("is not needed" in warnings) is bool(sentence)
    assert sentence in warnings


def test_key_hash_for_an_unknown_operator_is_refused() -> None:
    with pytest.raises(RequestError, match="no operator 'click' in the snapshot"):
        warnings_of("2-clicks", key_hash=["click=java"])
