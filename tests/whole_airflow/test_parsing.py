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

_ONLY_FOR_TASKS = (
    "execution",
    "insight",
    "planning.planner",
    "planning.prepare",
    "plan.plan",
    "report",
    "rocksdb",
    "snapshot",
)
"""Parts of our package that tasks need only when they run."""

_AIRFLOWIGNORE_WARNING = "GitWildMatchPattern ('gitwildmatch') is deprecated"
"""Beginning of a warning that Airflow itself causes by reading an `.airflowignore`."""

_MOST_MODULES = 142
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
    "warnings": [str(caught.message) for caught in warned] + [str(text) for text in bag.captured_warnings.values()],
    "modules": sorted(sys.modules),
}))
"""

_EMPTY = """
from airflow.sdk import dag

@dag(schedule=None)
def empty() -> None: ...

empty()
"""


def parse(folder: Path, home: Path) -> dict[str, Any]:
    """Return the document of `_PARSE` from a fresh interpreter that parses the DAGs of a folder."""
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
def parsed_dags(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return parse(dag_folder(), tmp_path_factory.mktemp("home"))


def test_dags_are_parsed_without_errors_or_warnings(parsed_dags: dict[str, Any]) -> None:
    assert parsed_dags["dags"] == ["rescale_discard", "rescale_job", "rescale_plan", DAG_ID]
    assert parsed_dags["errors"] == {}
    assert not [warning for warning in parsed_dags["warnings"] if not warning.startswith(_AIRFLOWIGNORE_WARNING)]


@pytest.fixture(scope="module")
def airflow_modules(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the modules that Airflow imports for an empty DAG."""
    dags = tmp_path_factory.mktemp("dags")
    (dags / "empty.py").write_text(_EMPTY)
    document = parse(dags, tmp_path_factory.mktemp("home"))
    assert document["dags"] == ["empty"]
    return set(document["modules"])


def test_parsing_imports_no_heavy_modules_beyond_those_of_airflow(
    parsed_dags: dict[str, Any], airflow_modules: set[str]
) -> None:
    new_modules = set(parsed_dags["modules"]) - airflow_modules
    assert "rescale.airflow.savepoint_tasks" in new_modules
    assert new_modules.isdisjoint(_HEAVY)


def test_parsing_imports_few_modules_and_none_that_only_tasks_need(
    parsed_dags: dict[str, Any], airflow_modules: set[str]
) -> None:
    new_modules = set(parsed_dags["modules"]) - airflow_modules
    work = tuple(f"rescale.{part}" for part in _ONLY_FOR_TASKS)
    assert [module for module in sorted(new_modules) if module.startswith(work)] == []
    assert len(new_modules) <= _MOST_MODULES, sorted(new_modules)


@pytest.mark.slow
def test_examples_are_parsed_only_in_a_folder_of_their_own_and_import_nothing_heavy(
    parsed_dags: dict[str, Any], airflow_modules: set[str], tmp_path: Path
) -> None:
    assert not [dag_id for dag_id in parsed_dags["dags"] if dag_id.startswith("example")]
    examples = parse(dag_folder() / "examples", tmp_path)
    assert examples["errors"] == {}
    assert examples["warnings"] == []
    assert examples["dags"] == [
        "example_after_a_rescale",
        "example_nightly_copy",
        "example_rescale_then_start",
        "example_scale_out",
    ]
    new_modules = set(examples["modules"]) - airflow_modules
    assert not [
        module for module in new_modules if module.startswith(tuple(f"rescale.{part}" for part in _ONLY_FOR_TASKS))
    ]
    assert new_modules.isdisjoint(_HEAVY)
