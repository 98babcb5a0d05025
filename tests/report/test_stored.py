"""The report beside a target shows the progress of a run, and never fails one."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest

from rescale.cli.main import main
from rescale.flink.release_line import ReleaseLine
from rescale.plan.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.report.pages.planned import plan_document
from rescale.report.step_results import FailedResult, Retries, StepMetrics, WorstMemory
from rescale.report.stored import document_of, put_report, report_of, run_document
from rescale.runstate.certificate import Certificate
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.runstate.removal import discard
from rescale.text.errors import IntegrityError, RequestError, SnapshotError, StoreError
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def source(tmp_path: Path) -> str:
    """Return a copy of a snapshot, which tests may remove."""
    return shutil.copytree(directory("2-clicks"), tmp_path / "source").as_posix()


@pytest.fixture
def plan(source: str, tmp_path: Path) -> Plan:
    """Return a plan that has claimed its target, with its report beside it."""
    prepared = prepare(make_request(source, str(tmp_path / "target"), ["6"]))
    claim(prepared.plan)
    assert put_report(prepared.plan, plan_document(*prepared)) == f"report: {places_of(prepared.plan).report}"
    return prepared.plan


def page_of(plan: Plan) -> str:
    return Path(places_of(plan).report).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "out", ["source/_metadata", "source/report.html", "link/report.html", "target/report.html", "notes.txt"]
)
def test_report_overwrites_no_file_of_a_snapshot_or_a_target(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = shutil.copytree(directory("2-clicks"), tmp_path / "source")
    (tmp_path / "link").symlink_to("source")
    execute_without_spark(plan_rescale(str(source), str(tmp_path / "target")))
    (tmp_path / "notes.txt").write_text("mine")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    reported_directory = tmp_path / ("target" if out.startswith("target") else "source")
    for name in (str(reported_directory), f"{reported_directory}/_metadata"):
        capsys.readouterr()
        assert main(["report", name, "-o", str(tmp_path / out)]) == 2
        assert "name another file: -o FILE" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_report_overwrites_an_earlier_one_behind_a_link(tmp_path: Path) -> None:
    """The link stays, as /dev/stdout has to."""
    page, link = tmp_path / "page.html", tmp_path / "link"
    page.touch()
    link.symlink_to(page)
    for _ in range(2):
        assert main(["report", directory("2-clicks"), "-o", str(link)]) == 0
        assert link.is_symlink()
        assert page.read_bytes().startswith(b"<!doctype html>")


def test_report_onto_a_link_to_a_pipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reader, writer = os.pipe()
    link = tmp_path / "stdout"
    link.symlink_to(f"/proc/self/fd/{writer}")
    assert main(["report", directory("2-clicks"), "-o", str(link)]) == 2
    assert "a pipe or a device" in capsys.readouterr().err
    assert link.is_symlink()
    for end in (reader, writer):
        os.close(end)


def test_report_of_a_plan_is_discarded_with_it(plan: Plan) -> None:
    assert "Planned" in page_of(plan)
    assert plan.start.command.replace("<", "&lt;").replace(">", "&gt;") in page_of(plan)
    removal = discard(plan.target)
    assert places_of(plan).report in removal.removed
    assert removal.left == ()
    assert not Path(places_of(plan).report).exists()


def test_no_report_is_written_after_a_discard(plan: Plan) -> None:
    discard(plan.target)
    assert "no longer belongs to this run" in put_report(plan)
    assert not Path(places_of(plan).report).exists()


def test_report_shows_the_results_of_steps(plan: Plan) -> None:
    result_file = Path(places_of(plan).result("reshuffle_keyed_state"))
    result_file.write_text(json.dumps({"status": "done", "seconds": 7.5}))
    put_report(plan)
    assert run_document(plan).took == {"reshuffle": 7.5}
    assert "reshuffle: took" in page_of(plan)
    memory = WorstMemory(1, 0)
    error = FailedResult(
        status="failed",
        error="IntegrityError",
        what="it does not add up",
        exit_code=4,
        seconds=2.5,
        metrics=StepMetrics(0, 0, 0, 0.0, (), {}, Retries(0, 0), memory),
    )
    result_file.write_bytes(msgspec.json.encode(error))
    put_report(plan)
    assert run_document(plan).error == error
    assert run_document(plan).took == {"reshuffle": 2.5}
    assert "Refused" in page_of(plan)


def test_report_shows_an_undamaged_certificate_only(plan: Plan) -> None:
    places = places_of(plan)
    digest = hashlib.sha256(b"to be _metadata").hexdigest()
    fields = ("complete", "everything", None, "murmur3", plan.source, "a", plan.target, digest, plan.digest)
    certificate = Certificate(*fields, (), 5, (), (), plan.start.command)
    Path(places.candidate).write_bytes(b"to be _metadata")
    Path(places.certificate).write_bytes(msgspec.json.encode(certificate.document()))
    put_report(plan)
    assert "Proven" in page_of(plan)
    assert "nothing is published yet" in page_of(plan)
    Path(plan.target).mkdir()
    Path(places.metadata).write_bytes(b"to be _metadata")
    assert document_of(plan.target).published
    Path(places.metadata).write_bytes(b"something else")
    with pytest.raises(IntegrityError, match="not the certified one") as caught:
        document_of(plan.target)
    assert caught.value.found == f"SHA-256 {hashlib.sha256(b'something else').hexdigest()}"
    Path(places.metadata).write_bytes(b"to be _metadata")
    changed_certificate = replace(certificate.document(), proves="even more")
    Path(places.certificate).write_bytes(msgspec.json.encode(changed_certificate))
    assert "the certificate was changed after it was written" in put_report(plan)
    with pytest.raises(IntegrityError):
        document_of(plan.target)


def test_report_can_be_made_of_a_target_a_plan_or_a_source(plan: Plan, source: str) -> None:
    document_of_target, document_of_plan, document_of_source = (
        document_of(uri) for uri in (plan.target, places_of(plan).plan, source)
    )
    assert document_of_target == document_of_plan
    assert document_of_target.plan.plan == plan.digest
    assert document_of_source.snapshot.snapshot == source
    assert document_of_source.plan is None


def test_report_without_stored_data_is_made_from_the_source(plan: Plan, source: str) -> None:
    document = document_of(plan.target)
    Path(places_of(plan).report_data).unlink()
    assert document_of(plan.target) == document
    shutil.copy(Path(directory("2-lazy"), "_metadata"), Path(source, "_metadata"))
    with pytest.raises(SnapshotError, match="is not the snapshot that the plan"):
        document_of(plan.target)


def test_report_of_a_target_needs_no_source(plan: Plan, source: str) -> None:
    shutil.rmtree(source)
    assert document_of(plan.target).plan.plan == plan.digest


def test_report_that_cannot_be_written_fails_no_run(plan: Plan) -> None:
    disk_error = StoreError("the disk is full")
    with patch("rescale.report.stored.html_report", side_effect=disk_error):
        assert put_report(plan) == "the report could not be written: the disk is full"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("plan.json", b"{", "not a plan"),
        ("plan.json", b"[1]", "not a plan"),
        ("plan.json", b'{"format": 1}', "made by another version"),
        ("plan.json", bytes(range(256)), "not a plan"),
        ("plan.json", b'{"format": ' + 100_000 * b"[", "not a plan"),
        ("letter.txt", b"Dear all", "there is neither a snapshot, nor a plan, nor the target of a run"),
    ],
)
def test_report_of_a_foreign_file_is_refused(
    capsys: Captured, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    out = tmp_path / "report.html"
    assert main(["report", str(tmp_path / name), "-o", str(out), "--output", "json"]) in (2, 3)
    document = json.loads(capsys.readouterr().out)
    assert message in document["what"]
    assert not out.exists()


@pytest.mark.parametrize("misspelt_name", ["targt", "targt.rescale/plan-0.json"])
def test_report_of_a_misspelt_target_or_plan_is_refused(plan: Plan, misspelt_name: str) -> None:
    with pytest.raises(RequestError, match="nor the target of a run") as caught:
        document_of(str(Path(plan.target).parent / misspelt_name))
    assert "a target that a run has claimed or published" in str(caught.value.expected)
    assert "the target that was named to the run" in str(caught.value.advice)


@pytest.mark.parametrize("key", ["operators", "insight", "kafka"])
def test_report_from_damaged_data_is_refused(capsys: Captured, plan: Plan, key: str, tmp_path: Path) -> None:
    summary = json.loads(Path(places_of(plan).report_data).read_text())
    for damaged_summary in ({**summary, key: 7}, {k: v for k, v in summary.items() if k != key}):
        Path(places_of(plan).report_data).write_text(json.dumps(damaged_summary))
        out = tmp_path / "report.html"
        assert main(["report", plan.target, "-o", str(out)]) == 2
        assert capsys.readouterr().err.startswith("error: no report can be made from this document: it is damaged")
        assert not out.exists()
        warning = put_report(plan)
        assert "could not be written: no report can be made from this document" in warning, "and the run goes on"
        assert "traceback" not in warning


def test_report_of_an_edited_plan_is_refused(plan: Plan, tmp_path: Path) -> None:
    plan_path = Path(places_of(plan).plan)
    content = plan_path.read_bytes().replace(b'"new_parallelism":6', b'"new_parallelism":0')
    plan_path.write_bytes(content)
    with pytest.raises(SnapshotError, match="not the one in its name"):
        report_of(str(plan_path))
    renamed_copy = tmp_path / "mine.json"
    renamed_copy.write_bytes(content)
    with pytest.raises(RequestError, match="no report can be made from this document"):
        report_of(str(renamed_copy))


def test_report_from_foreign_data_beside_a_target_is_refused(plan: Plan) -> None:
    Path(places_of(plan).report_data).write_text("[]")
    with pytest.raises(RequestError, match="no report can be made from this document"):
        document_of(plan.target)


def test_report_command_writes_a_page_and_answers_in_json(capsys: Captured, tmp_path: Path, source: str) -> None:
    uids_file = tmp_path / "uids"
    uids_file.write_text("<script>alert(1)</script>\nrevenue\n")
    out = tmp_path / "page.html"
    assert main(["report", source, "-o", str(out), "--output", "json", "--uids", str(uids_file)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == {"report": str(out), "bytes": out.stat().st_size}
    page = out.read_text(encoding="utf-8")
    assert page.count("<script") == 1
    assert "Snapshot source" in page


def test_restore_by_another_flink_is_reported_for_snapshots_only(plan: Plan, source: str) -> None:
    assert b"would restore" not in report_of(source)
    page = report_of(source, release_line=ReleaseLine(1, 20)).decode()
    assert "What Flink 1.20 would restore" in page
    assert "nothing: Flink 1.20 reads _metadata up to version 4" in page
    with pytest.raises(RequestError, match="this is a plan or a target"):
        report_of(plan.target, release_line=ReleaseLine(1, 20))
