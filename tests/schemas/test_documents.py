"""Schemas of documents: real documents fit them, and a change of a schema is a new version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

import diff_snapshots
import move_and_validate
from rescale.cli.main import main
from rescale.execution.job import run_step_of_job
from rescale.runstate.places import places_of
from rescale.schemas.documents import DOCUMENTS, PublishedDocument
from rescale.schemas.schema import schema_of
from rescale.text.errors import SnapshotError
from support.commands import Captured, answer, commands
from support.pipeline import claimed_plan
from support.schemas import answered_by, assert_valid
from support.slow import slow
from support.snapshots import directory

SOURCE = directory("2-clicks")
DIGESTS_FILE = Path(__file__).with_name("digests.json")
DOCUMENT_NAMES = [document.name for document in DOCUMENTS]

_PROSE_KEYWORDS = ("description", "title")
"""Keywords that validation ignores."""


def digest_of(schema: dict[str, Any]) -> str:
    """Return the SHA-256 (hex) of what a schema means: schemas with equal digests accept the same documents."""
    return hashlib.sha256(msgspec.json.encode(_meaning(schema), order="deterministic")).hexdigest()


def _meaning(value: Any, *, are_field_names: bool = False) -> Any:
    """Return a schema without prose, with required fields sorted.

    `are_field_names` says that the keys of `value` are names of fields.
    """
    if isinstance(value, dict):
        return {
            key: sorted(inner)
            if key == "required" and not are_field_names
            else _meaning(inner, are_field_names=not are_field_names and key in ("properties", "$defs"))
            for key, inner in value.items()
            if are_field_names or key not in _PROSE_KEYWORDS
        }
    return [_meaning(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("document", DOCUMENTS, ids=DOCUMENT_NAMES)
def test_changed_schema_needs_a_new_version(document: PublishedDocument) -> None:
    published_digests: dict[str, dict[str, str]] = json.loads(DIGESTS_FILE.read_text())
    digest, version = digest_of(schema_of(document)), str(document.version)
    assert published_digests.get(document.name, {}).get(version) == digest, (
        f"The schema of {document.name!r} is not the one that was published as version {version}. Users may rely on "
        f"that version, so raise the version in rescale/schemas/documents.py (for plan-file: PLAN_FORMAT in "
        f"rescale/plan/plan.py), and add the digest of the new version to {DIGESTS_FILE.name}, beside those of the "
        f'earlier ones: "{document.name}": {{"{version} or the new version": "{digest}"}}'
    )


def test_digest_ignores_descriptions_but_not_fields_of_that_name() -> None:
    schema = {"description": "text", "properties": {"title": {"type": "string", "title": "text"}}}
    same_schema = {"properties": {"title": {"type": "string"}}}
    assert digest_of(schema) == digest_of(same_schema) != digest_of({"properties": {}})


def test_digest_ignores_the_order_of_required_fields_but_not_of_values() -> None:
    assert digest_of({"required": ["b", "a"]}) == digest_of({"required": ["a", "b"]}) != digest_of({"required": ["a"]})
    assert digest_of({"prefixItems": [{"type": "string"}, {}]}) != digest_of({"prefixItems": [{}, {"type": "string"}]})


@pytest.mark.parametrize("name", DOCUMENT_NAMES)
def test_the_command_prints_each_schema_in_both_forms(name: str, capsys: Captured) -> None:
    assert main(["schema", name]) == 0
    printed_schema = json.loads(capsys.readouterr().out)
    assert main(["schema", name, "--output", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == printed_schema
    Draft202012Validator.check_schema(printed_schema)
    assert printed_schema["$id"] == f"urn:flink-rescale:schema:{name}:{printed_schema['version']}"
    assert printed_schema["title"] == name


def test_schema_command_without_a_document_lists_all(capsys: Captured) -> None:
    code, schema_list = answer(capsys, "schema")
    assert code == 0
    assert [entry["document"] for entry in schema_list["schemas"]] == DOCUMENT_NAMES
    assert main(["schema"]) == 0
    text = capsys.readouterr().out
    assert all(entry["where"] in text for entry in schema_list["schemas"])


def test_a_misspelt_document_gets_a_suggestion(capsys: Captured) -> None:
    code, error = answer(capsys, "schema", "certificat")
    assert code == 2
    assert error["advice"].startswith("did you mean 'certificate'?")


def test_every_command_that_answers_in_json_has_a_schema() -> None:
    assert {answered_by(command) for command in commands() if command != "demo"} <= {*DOCUMENT_NAMES}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize(
    "shape", [slow(("--parallelism", "3")), ("--max-parallelism", "9", "--drop", "visits", "--yes")]
)
def test_documents_of_a_run_fit_their_schemas(tmp_path: Path, capsys: Captured, shape: tuple[str, ...]) -> None:
    """`answer` checks the answers of the commands against their schemas."""
    target, report = tmp_path / "target", tmp_path / "report.html"
    assert answer(capsys, "plan", SOURCE, "--target", str(target), *[word for word in shape if word != "--yes"])[0] == 0
    assert answer(capsys, "run", SOURCE, "--target", str(target), *shape)[0] == 0
    documents = Path(f"{target}.rescale")
    (plan_path,) = documents.glob("plan-*.json")
    assert_valid("plan-file", read_json(plan_path))
    assert_valid("certificate", read_json(documents / "certificate.json"))
    assert_valid("plan", read_json(documents / "report.json"))
    result_paths = sorted(documents.glob("result-*.json"))
    assert len(result_paths) == 3
    for result_path in result_paths:
        assert_valid("step-result", read_json(result_path))
    assert answer(capsys, "validate", SOURCE, str(target))[0] == 0
    assert answer(capsys, "diff", SOURCE, str(target))[0] == (4 if "--drop" in shape else 0)
    assert answer(capsys, "report", str(target), "-o", str(report))[0] == 0
    assert answer(capsys, "discard", str(target))[0] == 2


def test_result_of_a_failed_step_fits_its_schema(tmp_path: Path) -> None:
    def fail() -> dict[str, Any]:
        raise SnapshotError("damaged", path="/s/file", offset=7, operator="visits", expected=1, found=2, advice="wait")

    result_path = tmp_path / "step" / "result.json"
    with pytest.raises(SnapshotError):
        run_step_of_job("reshuffle", str(result_path), fail)
    assert_valid("step-result", read_json(result_path))


def result_of(main_of_step: Callable[[], int], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """Run the main of a step as its script does, and return its result document."""
    result = Path(arguments[-1])
    monkeypatch.setattr("sys.argv", ["step", *arguments])
    main_of_step()
    return read_json(result)


def test_results_of_processes_fit_their_schemas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result_arguments = ["--master", "local[1]", "--result", str(tmp_path / "results" / "result.json")]
    snapshot_arguments = ["--a", SOURCE, "--b"]
    assert_valid(
        "diff-result", result_of(diff_snapshots.main, monkeypatch, *snapshot_arguments, SOURCE, *result_arguments)
    )
    assert_valid(
        "diff-result",
        result_of(diff_snapshots.main, monkeypatch, *snapshot_arguments, "/nothing/there", *result_arguments),
    )
    plan = claimed_plan(SOURCE, str(tmp_path / "target"), ["3"])
    plan_arguments = ["--plan", places_of(plan).plan]
    assert_valid("run-result", result_of(move_and_validate.main, monkeypatch, *plan_arguments, *result_arguments))


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("discard", {"removed": ["/a"]}),
        ("discard", {"removed": ["/a"], "left": [1]}),
        ("discard", {"removed": [], "left": [], "new": 1}),
        ("error", {"error": "RequestError", "what": "no"}),
    ],
)
def test_malformed_document_does_not_fit_its_schema(name: str, document: Any) -> None:
    with pytest.raises(AssertionError, match="does not fit its schema"):
        assert_valid(name, document)
