"""The documentation site builds with `--strict`, and its reference has all that the code has."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest
import yaml

import rescale.airflow
from rescale.airflow.forms.form import rescale_form
from rescale.airflow.forms.job_form import job_form
from rescale.airflow.settings import Settings
from rescale.cli.main import parser
from rescale.options.follow_rows import FOLLOW_OPTIONS
from rescale.options.rows import OPTIONS
from rescale.schemas.documents import DOCUMENTS
from rescale.schemas.schema import schema_of
from support.readme import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site and return its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow"))}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


def code_of(page: Path) -> set[str]:
    """Return the texts on a page that are shown as code."""
    return {unescape(text) for text in re.findall(r"<code>([^<]*)</code>", page.read_text(encoding="utf-8"))}


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    page = site / "reference" / "commands" / "index.html"
    (commands,) = (action for action in parser()._actions if isinstance(action, argparse._SubParsersAction))
    ids = set(re.findall(r'<h2 id="([^"]*)"', page.read_text(encoding="utf-8")))
    assert set(commands.choices) <= ids
    flags = {flag for command in commands.choices.values() for flag in command._option_string_actions}
    shown_words = {word.strip(",") for text in code_of(page) for word in text.split()}
    assert {flag for flag in flags if flag.startswith("--")} - {"--help"} <= shown_words


def test_every_option_of_a_request_is_in_its_table(site: Path) -> None:
    assert {row.example for row in (*OPTIONS, *FOLLOW_OPTIONS)} <= code_of(
        site / "reference" / "options" / "index.html"
    )


def test_every_param_is_in_the_reference(site: Path) -> None:
    assert {*rescale_form(), *job_form()} <= code_of(site / "reference" / "params" / "index.html")


def test_every_setting_is_in_the_reference(site: Path) -> None:
    code_texts = code_of(site / "reference" / "settings" / "index.html")
    assert {*Settings.__struct_fields__, "four_eyes", "above_gigabytes", "timeout_minutes", "notifier"} <= code_texts


def test_every_value_of_the_chart_is_in_the_reference(site: Path) -> None:
    values = yaml.safe_load((ROOT / "charts" / "rescale" / "values.yaml").read_text(encoding="utf-8"))
    value_names = {name.partition(".")[0] for name in code_of(site / "reference" / "chart-values" / "index.html")}
    assert set(values) <= value_names


def test_every_document_has_its_schema_beside_its_fields(site: Path) -> None:
    page = site / "reference" / "documents" / "index.html"
    for document in DOCUMENTS:
        path = site / "reference" / "schemas" / f"{document.name}.json"
        assert json.loads(path.read_text(encoding="utf-8")) == json.loads(json.dumps(schema_of(document)))
        assert f'href="../schemas/{document.name}.json"' in page.read_text(encoding="utf-8")
    assert {"does_not_prove", "bytes_moved", "healthy", "exit_code", "last_round_seconds"} <= code_of(page)


def test_every_public_name_of_the_api_is_in_the_reference(site: Path) -> None:
    text = (site / "reference" / "api" / "index.html").read_text(encoding="utf-8")
    ids = {anchor.rpartition(".")[2] for anchor in re.findall(r'id="(rescale\.[\w.]+)"', text)}
    assert set(rescale.airflow.__all__) <= ids


@pytest.mark.parametrize("example", sorted((ROOT / "dags" / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_every_example_is_on_a_page(site: Path, example: Path) -> None:
    page_texts = [
        re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8")) for page in (site / "how-to").rglob("*.html")
    ]
    assert any(example.read_text(encoding="utf-8").strip() in unescape(text) for text in page_texts)


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    for page in site.rglob("*.html"):
        urls = re.findall(r'<(?:script|img|iframe)[^>]* src="([^"]+)"', page.read_text(encoding="utf-8"))
        urls += re.findall(r'<link[^>]* rel="stylesheet"[^>]* href="([^"]+)"', page.read_text(encoding="utf-8"))
        assert not [url for url in urls if "//" in url], page
