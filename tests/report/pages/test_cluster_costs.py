"""Estimate for a cluster in the text of a plan, in Airflow's question and in the report."""

from __future__ import annotations

import json

import msgspec
import pytest

from rescale.airflow.question import question_markdown
from rescale.cli.main import main
from rescale.insight.cluster import CLUSTER_VARIABLE, Cluster
from rescale.report.documents import PlanDocument, ReportDocument
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_document, plan_page
from rescale.report.renderers.text import render_text
from rescale.report.report_page import html_report
from support import snapshots
from support.large_plans import large_plan
from support.synthetic import operator, snapshot

TIGHT_CLUSTER = Cluster(executors=40, cores=8, bandwidth=1_200_000_000, scratch=1 << 30)


@pytest.fixture(scope="module")
def summary() -> PlanDocument:
    """Return the summary of a plan that shuffles a terabyte through small disks."""
    plan = large_plan(10**12, 100, subtasks=5, groups=128)
    document = plan_document(plan, snapshot(operator("big 0", 5)), (), TIGHT_CLUSTER)
    assert msgspec.json.decode(msgspec.json.encode(document), type=PlanDocument) == document
    return document


def test_text_of_a_plan_has_the_cost_and_the_limit_of_the_cluster(summary: PlanDocument) -> None:
    text = render_text(plan_page(summary))
    table = text[text.index("Estimate: 40 executors of 8 cores and 1.2 GB/s") :]
    sizes = [line.split("  ")[0] for line in table.splitlines() if "$" in line]
    assert sizes == ["1 TB"]
    assert "the largest key group, which one core works through" in table
    assert "read and sort records" in table


def test_cluster_that_is_too_small_gives_a_warning_before_approval(summary: PlanDocument) -> None:
    disk_warning = "of scratch space on the disk of each executor"
    assert [disk_warning in line for line in summary.warnings].count(True) == 1
    assert "1 TB of state does not fit on this cluster" in question_markdown(summary)
    assert disk_warning in plan_markdown(summary)
    assert "warning: 1 TB of state does not fit on this cluster" in render_text(plan_page(summary))


def test_report_has_the_cost_of_the_cluster(summary: PlanDocument) -> None:
    assert b"Estimate: 40 executors" in html_report(ReportDocument(plan=summary))


def test_plan_without_a_cluster_says_nothing_of_one() -> None:
    plan = large_plan(10**12, 100, subtasks=5, groups=128)
    document = plan_document(plan, snapshot(operator("big 0", 5)))
    assert document.cluster is None
    assert "Estimate: " not in render_text(plan_page(document)) + plan_markdown(document)


@pytest.mark.parametrize(
    ("sentence", "arguments", "expected"),
    [
        ("", ["--executors", "40"], (40, 2)),
        ("executors=3 cores=4", [], (3, 4)),
        ("executors=3 cores=4", ["--cores", "5"], (3, 5)),
    ],
)
def test_cluster_is_read_from_command_line_and_environment(
    sentence: str,
    arguments: list[str],
    expected: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(CLUSTER_VARIABLE, sentence)
    source = snapshots.directory("2-canonical-rocksdb")
    plan = ["plan", str(source), "--target", "/nowhere/target", "--parallelism", "3", "--output", "json"]
    assert main([*plan, *arguments]) == 0
    cluster = json.loads(capsys.readouterr().out)["cluster"]["cluster"]
    assert (cluster["executors"], cluster["cores"]) == expected
    assert main([*plan, "--executors", "none"]) == 2
