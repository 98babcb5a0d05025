"""The wheel is installed into empty environments, with each extra, and the command starts there."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from importlib.metadata import version
from pathlib import Path

import pytest

from support.needs import need, skip_in_any_case

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel, built from the source distribution as for a package index."""
    need("uv", "the wheel is built with it")
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--quiet", "--out-dir", str(folder), str(ROOT))
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=["newest", "constrained"])
def constraints(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the options of an installation with the newest releases, and of one with Airflow's constraints."""
    if request.param == "newest":
        return []
    release, python = version("apache-airflow"), f"{sys.version_info.major}.{sys.version_info.minor}"
    url = f"https://raw.githubusercontent.com/apache/airflow/constraints-{release}/constraints-{python}.txt"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            pins = answer.read().decode()
    except OSError as error:
        skip_in_any_case(f"Airflow's constraints cannot be fetched: {error}")
    file = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    file.write_text(f"{pins}\napache-airflow=={release}\n", encoding="utf-8")
    return ["--constraints", str(file)]


def uv(*arguments: str) -> str:
    return subprocess.run(["uv", *arguments], stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("extra", "module", "missing"),
    [
        ("", "rescale.snapshot.reading.opening", "pyspark"),
        ("[spark]", "rescale.execution.tasks.spark.session", "airflow"),
        ("[airflow]", "rescale.airflow.forms.form", "pyspark"),
        ("[tracing]", "opentelemetry.sdk", "pyspark"),
        ("[airflow,demo,spark]", "rescale.demo.airflow_home", "pytest"),
    ],
    ids=["base", "spark", "airflow", "tracing", "demo"],
)
def test_an_extra_brings_what_it_needs_and_no_more(
    extra: str, module: str, missing: str, wheel: Path, constraints: list[str], tmp_path: Path
) -> None:
    python = str(tmp_path / "venv" / "bin" / "python")
    uv("venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv"))
    uv("pip", "install", "--quiet", "--python", python, *constraints, f"flink-rescale{extra} @ file://{wheel}")
    version = subprocess.run(
        [Path(python).with_name("rescale"), "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout == f"rescale {wheel.name.split('-')[1]}\n"
    assert subprocess.run([python, "-c", f"import {module}"], check=False).returncode == 0
    absent = f"import importlib.util; raise SystemExit(importlib.util.find_spec({missing!r}) is not None)"
    assert subprocess.run([python, "-c", absent], check=False).returncode == 0
