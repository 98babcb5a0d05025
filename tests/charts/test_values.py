"""The values: what the schema refuses, and that all of them are described."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from support.helm import CHART, CHARTS, template
from support.needs import need

sys.path.insert(0, str(CHARTS))

import make_readme

RUN = ("run.source=s3://a/s", "run.target=s3://a/t")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["executor.most=3"], "additional properties 'executor' not allowed"),
        (["run.paralelism=3"], "additional properties 'paralelism' not allowed"),
        ([*RUN, "run.parallelism=0"], "minimum: got 0, want 1"),
        ([*RUN, "run.parallelism=six"], "got string, want"),
        ([*RUN, "run.options={uid=4}"], "does not match pattern"),
        (["run.source=/tmp/savepoint", "run.target=s3://a/t"], "does not match pattern"),
        (["executors.memory=2Gi"], "does not match pattern"),
        (["image.pullPolicy=Sometimes"], "value must be one of 'Always', 'IfNotPresent', 'Never'"),
        (["s3.secret=With Spaces"], "does not match pattern"),
        (["airflow.enabled=yes"], "got string, want boolean"),
        (["run.source=s3://a/s"], "run.target: where does the result go?"),
        (["run.target=s3://a/t"], "run.source: which savepoint is it?"),
        (["airflow.enabled=true"], "airflow.secret: which Secret holds"),
        (["handover.namespaces={jobs}"], "only an Airflow hands jobs over"),
    ],
)
def test_wrong_values_are_refused(values: list[str], sentence: str) -> None:
    need("helm", "charts are rendered (go install helm.sh/helm/v3/cmd/helm@v3.19.0)")
    done = template(*(word for value in values for word in ("--set", value)))
    assert done.returncode != 0
    assert sentence in done.stderr


def leaves(values: dict[str, Any], described: set[str], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and path not in described:
            yield from leaves(value, described, f"{path}.")
        else:
            yield path


def test_every_value_is_described() -> None:
    text = (CHART / "values.yaml").read_text()
    described = {value.path for value in make_readme.values(text)}
    assert set(leaves(yaml.safe_load(text), described)) == described


def test_the_readme_is_current() -> None:
    readme = (CHART / "README.md").read_text()
    assert readme == make_readme.current(readme, (CHART / "values.yaml").read_text())
