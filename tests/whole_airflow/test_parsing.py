"""Parsing of the DAGs by Airflow: no error, no warning, and few imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rescale.demo.airflow_home import DAG_ID, PARSING_LIMITS, dag_folder

_HEAVY = ("pyspark", "numba", "numpy", "pyarrow", "boto3", "botocore", "jinja2", "kubernetes", "tabulate")

_WORK = ("execution", "insight", "planning.planner", "planning.prepare", "plan.plan", "report", "rocksdb", "snapshot")
"""Parts of our package that tasks need only when they run."""

_OF_AIRFLOWIGNORE = "GitWildMatchPattern ('gitwildmatch') is deprecated"
"""Beginning of a warning that Airflow causes itself for every `.airflowignore`."""

_MOST_MODULES = 141
"""Most modules that all DAGs of Rescale together may import, which takes about 0.3 seconds of CPU."""

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
    """Return the DAGs that a fresh interpreter parses in a folder."""
    answer = subprocess.run(
        [sys.executable, "-c", _PARSE, str(folder)],
        env={
            **os.environ,
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            **PARSING_LIMITS,
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


def test_dags_are_parsed_without_errors_or_warnings(ours: dict[str, Any]) -> None:
    assert ours["dags"] == ["rescale_discard", "rescale_job", "rescale_plan", DAG_ID]
    assert ours["errors"] == {}
    assert not [warning for warning in ours["warnings"] if not warning.startswith(_OF_AIRFLOWIGNORE)]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the modules that Airflow imports for an empty DAG."""
    dags = tmp_path_factory.mktemp("dags")
    (dags / "empty.py").write_text(_EMPTY)
    document = parsed(dags, tmp_path_factory.mktemp("home"))
    assert document["dags"] == ["empty"]
    return set(document["modules"])


def test_parsing_imports_no_heavy_modules_beyond_those_of_airflow(ours: dict[str, Any], empty: set[str]) -> None:
    brought = set(ours["modules"]) - empty
    assert "rescale.airflow.savepoint_tasks" in brought
    assert brought.isdisjoint(_HEAVY)


def test_parsing_imports_few_modules_and_none_that_only_tasks_need(ours: dict[str, Any], empty: set[str]) -> None:
    brought = set(ours["modules"]) - empty
    work = tuple(f"rescale.{part}" for part in _WORK)
    assert [module for module in sorted(brought) if module.startswith(work)] == []
    assert len(brought) <= _MOST_MODULES, sorted(brought)


@pytest.mark.slow
def test_examples_are_parsed_only_in_a_folder_of_their_own_and_import_nothing_heavy(
    ours: dict[str, Any], empty: set[str], tmp_path: Path
) -> None:
    assert not [dag_id for dag_id in ours["dags"] if dag_id.startswith("example")]
    examples = parsed(dag_folder() / "examples", tmp_path)
    assert examples["errors"] == {}
    assert examples["warnings"] == []
    assert examples["dags"] == [
        "example_after_a_rescale",
        "example_nightly_copy",
        "example_rescale_then_start",
        "example_scale_out",
    ]
    brought = set(examples["modules"]) - empty
    assert not [module for module in brought if module.startswith(tuple(f"rescale.{part}" for part in _WORK))]
    assert brought.isdisjoint(_HEAVY)
