"""The values: what schema and checks of the chart refuse, and that every value is described."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescale.airflow.forms.form import rescale_form
from rescale.airflow.forms.job_form import job_form
from rescale.airflow.settings import Settings
from rescale.airflow.windows.window import read_entry
from support.helm import CHART, rendered, template
from support.needs import need

RUN = ("run.source=s3://a/s", "run.target=s3://a/t")

WINDOW = {
    "schedule": "0 6 * * *",
    "timezone": "UTC",
    "closes": "07:30",
    "target": "s3://a/{date}",
    "source": "s3://a/s",
}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["executor.most=3"], "additional properties 'executor' not allowed"),
        (["run.paralelism=3"], "additional properties 'paralelism' not allowed"),
        ([*RUN, "run.parallelism=0"], "minimum: got 0, want 1"),
        ([*RUN, "run.parallelism=six"], "got string, want"),
        ([*RUN, "run.options={uid=4}"], "does not match pattern"),
        ([*RUN, "run.options={--target=s3://a/other}"], "does not match pattern"),
        (["run.source=/tmp/savepoint", "run.target=s3://a/t"], "does not match pattern"),
        (["executors.memory=2Gi"], "does not match pattern"),
        (["scratch.size=.5Ti"], "does not match pattern"),
        (["scratch.size=20ki"], "does not match pattern"),
        (["driver.resources.limits.memory=2147483648000m"], "does not match pattern"),
        (["image.pullPolicy=Sometimes"], "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        (["image.spark.digest=1a2b"], "does not match pattern"),
        (["s3.secret=With Spaces"], "does not match pattern"),
        (["s3.endpoint=http://me:secret@store:9000"], "does not match pattern"),
        (["proxy.https=http://me:secret@proxy:3128"], "does not match pattern"),
        (["spark.conf.spark\\.ui=a\nb"], "does not match pattern"),
        (["spark.conf.ui=true"], "does not match pattern"),
        (["airflow.enabled=yes"], "got string, want boolean"),
        (["run.source=s3://a/s"], "run.target: set it to the directory of the result"),
        (["run.target=s3://a/t"], "run.source: set it to a savepoint or checkpoint"),
        (["run.sparkOperator=true"], "run.sparkOperator: there is no run"),
        (["run.source=s3://a/s", "run.target=s3a://a/s/"], "a directory that is not inside the source"),
        (["run.source=s3://a/s", "run.target=s3://a/s/rescaled"], "a directory that is not inside the source"),
        (["run.source=s3://a/s/one", "run.target=s3p://a/s"], "a directory that is not inside the source"),
        (["driver.memory=2g"], "the heap of 2g and 384 MiB beside it exceed driver.resources.limits.memory, 2Gi"),
        (["driver.memory=700m", "driver.resources.limits.memory=1G"], "exceed driver.resources.limits.memory, 1G"),
        ([*RUN, "run.sparkOperator=true", "driver.memory=1500m"], "the heap of 1500m and 640 MiB beside it"),
        (["spark.authenticate=false"], "spark.encrypt: encryption needs the secret"),
        (["serviceAccounts.create=false"], "serviceAccounts.names.driver: set it"),
        (["airflow.enabled=true"], "airflow.secret: set it to the name of a Secret"),
        (["handover.namespaces={jobs}"], "only an Airflow hands jobs over"),
        ([f"windows.early.{name}={value}" for name, value in WINDOW.items()], "windows: only an Airflow has windows"),
        (["settings.tasks.owner=us"], "settings: only an Airflow has settings"),
    ],
)
def test_invalid_values_are_refused(values: list[str], sentence: str) -> None:
    process = template(*(word for value in values for word in ("--set", value.replace("{date}", "\\{date\\}"))))
    assert process.returncode != 0
    assert sentence in process.stderr


def test_target_beside_the_source_and_memory_at_the_limit_are_accepted() -> None:
    assert rendered("--set", "run.source=s3://a/save", "--set", "run.target=s3://a/save-rescaled")
    assert rendered("--set", "driver.memory=1664m")


def schema() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return document


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"paralelism": 2}, "additional properties 'paralelism' not allowed"),
        ({"connection": "mine"}, "additional properties 'connection' not allowed"),
        ({"job": "clicks", "source": None}, "missing property 'flink'"),
        ({"job": "clicks", "source": None, "flink": "http://flink:8081"}, "missing property 'savepoints'"),
        ({"job": "clicks"}, "additional properties 'source' not allowed"),
        ({"closes": "25:00"}, "does not match pattern"),
        ({"closes": None}, "missing property 'closes'"),
        ({"target": "s3://a/b"}, "does not match pattern"),
        ({"target": "s3://a/{dates}"}, "does not match pattern"),
        ({"schedule": "noon"}, "does not match pattern"),
    ],
)
def test_invalid_windows_are_refused(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    window = {name: value for name, value in {**WINDOW, **change}.items() if value is not None}
    process = render_windows({"early": window}, tmp_path)
    assert process.returncode != 0
    assert sentence in process.stderr


def test_windows_have_the_fields_of_the_forms(tmp_path: Path) -> None:
    own_fields = {"schedule", "timezone", "closes"}
    own_fields_of_jobs = {*own_fields, "begins_before"}
    # The chart gives pods their access by the environment, so its windows name no connections.
    connections = {"connection", "source_connection", "kubernetes_connection"}
    definitions = schema()["definitions"]
    assert set(definitions["windowOfSavepoints"]["properties"]) == own_fields | rescale_form().keys() - connections
    assert set(definitions["windowOfAJob"]["properties"]) == own_fields_of_jobs | job_form().keys() - connections
    example = yaml.safe_load((CHART.parents[1] / "dags/windows.example.yaml").read_text())
    for window in example.values():
        del window["connection"]
    process = render_windows({**example, "early": WINDOW}, tmp_path)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"target": "s3://a/{date:%Y%m%d}"},
        {"target": "s3://a/{window}/{date:%Y}/{date:%m-%d}-{time}"},
        {"schedule": "@daily"},
    ],
)
def test_windows_that_the_dags_accept_are_accepted(change: dict[str, Any], tmp_path: Path) -> None:
    entry = {**WINDOW, "parallelism": 2, **change}
    assert read_entry("early", entry)[1] == []
    process = render_windows({"early": entry}, tmp_path)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, None),
        ({"task": {}}, "additional properties 'task' not allowed"),
        ({"tasks": {"timeout_minutes": 0}}, "exclusiveMinimum"),
        ({"form": {"connection": "mine"}}, "connection"),
        ({"notify": {"back": [{"arguments": {}}]}}, "missing property 'notifier'"),
        ({"spark": {"master": "yarn"}}, "spark"),  # steps are pods
    ],
)
def test_settings_are_checked_as_those_of_the_dags(
    change: dict[str, Any], sentence: str | None, tmp_path: Path
) -> None:
    example = yaml.safe_load((CHART.parents[1] / "dags/rescale_settings.example.yaml").read_text())
    del example["form"]["connection"]
    assert set(schema()["properties"]["settings"]["properties"]) == set(Settings.__struct_fields__) == set(example)
    del example["spark"]
    process = render_settings({**example, **change}, tmp_path)
    assert (process.returncode == 0) == (sentence is None), process.stderr
    assert (sentence or "") in process.stderr


def render_settings(settings: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    return render_airflow({"settings": settings}, folder)


def render_windows(windows: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    return render_airflow({"windows": windows}, folder)


def render_airflow(values: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    return template("--values", str(file), "--set", "airflow.enabled=true", "--set", "airflow.secret=s")


def leaves(values: dict[str, Any], described: set[str], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and path not in described:
            yield from leaves(value, described, f"{path}.")
        else:
            yield path


def test_every_value_is_described() -> None:
    described_values = re.findall(
        r"^\| `([\w.]+)` \| `.+` \| \S.* \|$", (CHART / "README.md").read_text(), re.MULTILINE
    )
    assert len(described_values) == len(set(described_values))
    assert set(leaves(yaml.safe_load((CHART / "values.yaml").read_text()), set(described_values))) == set(
        described_values
    )


def test_readme_of_the_chart_is_current() -> None:
    need("helm-docs", "it makes the README")
    command = ["helm-docs", "-c", str(CHART), "-s", "file", "--ignore-non-descriptions", "--dry-run"]
    rendered_readme = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert rendered_readme.strip() == (CHART / "README.md").read_text().strip()
