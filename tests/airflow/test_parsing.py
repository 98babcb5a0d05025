"""What Airflow sees when it parses the DAG: no error, no warning, and nothing heavy comes along."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rescale.demo.airflow_home import DAG_ID, dag_folder
from support.whole_airflow import PARSE_SECONDS

_HEAVY = ("pyspark", "numba", "numpy", "pyarrow", "boto3", "rocksdict")

_PARSE = """
import json, sys, warnings
from airflow.dag_processing.dagbag import DagBag
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    bag = DagBag(sys.argv[1])
print(json.dumps({
    "dags": sorted(bag.dags),
    "errors": bag.import_errors,
    "warnings": [str(one.message) for one in warned] + [str(one) for one in bag.captured_warnings.values()],
    "modules": sorted(sys.modules),
}))
"""

_EMPTY = """
from airflow.sdk import dag

@dag(schedule=None)
def empty() -> None: ...

empty()
"""


def parsed(folder: Path, home: Path) -> dict[str, Any]:
    """What a fresh interpreter finds in a folder of DAGs."""
    answer = subprocess.run(
        [sys.executable, "-c", _PARSE, str(folder)],
        env={
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT": PARSE_SECONDS,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return document


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return parsed(dag_folder(), tmp_path_factory.mktemp("home"))


def test_the_dag_is_found_without_an_error_or_a_warning(ours: dict[str, Any]) -> None:
    assert ours["dags"] == ["rescale_discard", "rescale_job", "rescale_plan", DAG_ID]
    assert ours["errors"] == {}
    assert ours["warnings"] == []


def test_parsing_brings_nothing_heavy_that_airflow_does_not_bring_itself(ours: dict[str, Any], tmp_path: Path) -> None:
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "empty.py").write_text(_EMPTY)
    empty = parsed(dags, tmp_path / "home")
    assert empty["dags"] == ["empty"]
    brought = set(ours["modules"]) - set(empty["modules"])
    assert "rescale.orchestration.savepoint_tasks" in brought
    assert brought.isdisjoint(_HEAVY)
