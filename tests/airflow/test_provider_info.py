"""Airflow finds the package as a provider, and everything that it offers to other DAGs can be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import jsonschema
import pytest

import airflow
import rescale.airflow
from rescale.airflow.provider_info import get_provider_info


def test_airflow_finds_the_provider_by_its_entry_point() -> None:
    (provider,) = [
        entry for entry in entry_points(group="apache_airflow_provider") if entry.dist.name == "flink-rescale"
    ]
    assert provider.load() is get_provider_info


def test_provider_info_is_valid_and_its_modules_exist() -> None:
    information = get_provider_info()
    schema = Path(airflow.__file__).parent / "provider_info.schema.json"
    jsonschema.validate(information, json.loads(schema.read_text()))
    for kind in ("operators", "sensors", "triggers"):
        for group in information[kind]:
            for module in group["python-modules"]:
                assert import_module(module)


def test_every_public_name_can_be_imported() -> None:
    assert {name for name in rescale.airflow.__all__ if getattr(rescale.airflow, name) is None} == set()
    assert set(rescale.airflow.__all__) <= set(dir(rescale.airflow))
    with pytest.raises(AttributeError, match="Nothing"):
        rescale.airflow.Nothing  # noqa: B018


def test_importing_the_package_imports_nothing_else() -> None:
    command = "import rescale.airflow, sys; print(*(name for name in sys.modules if name.startswith('rescale')))"
    process = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["rescale", "rescale.airflow"]
