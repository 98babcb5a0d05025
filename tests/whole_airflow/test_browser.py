"""Pages in a browser: a form that refuses, and runs that succeed, are cancelled, or wait for an answer."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rescale.demo.airflow_home import DAG_ID, USER
from rescale.report.pages.inspection import inspection
from rescale.runstate.step import Step
from rescale.snapshot.dropped_states import state_names
from rescale.snapshot.kafka.offsets import KafkaKind, kafka_offsets
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage.store import open_store
from support.airflow_server import PATIENCE_SECONDS, AirflowServer, Run, request, wait_for
from support.browser import Pages, browser
from support.edited import relocated
from support.open_fields import OPEN_FIELDS
from support.snapshots import FIXTURES, directory

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pages(airflow: AirflowServer) -> Iterator[Pages]:
    """Yield the pages of the DAG for a user who has logged in."""
    with browser(1280, 1100) as driver:
        pages = Pages(driver, airflow.home.url, DAG_ID)
        pages.log_in(USER, airflow.home.password)
        yield pages


@pytest.fixture(autouse=True)
def leave_page(pages: Pages) -> Iterator[None]:
    """Leave the page after a test."""
    yield
    pages.leave()


def end_of(pages: Pages, run: Run) -> str:
    """Return how a run ends, without an open page."""
    pages.leave()
    return run.end()


@pytest.mark.gate
def test_form_asks_for_source_and_target(pages: Pages) -> None:
    pages.open_form()
    assert not pages.can_be_triggered
    pages.fill(source="/save")
    assert not pages.can_be_triggered
    pages.fill(target="/rescaled")
    assert pages.can_be_triggered


def test_form_opens_with_the_first_fields(pages: Pages) -> None:
    pages.open_form()
    assert pages.fields_in_sight == list(OPEN_FIELDS)


def test_wrong_value_is_refused_with_a_message_and_can_be_corrected(
    pages: Pages, airflow: AirflowServer, bucket: str, upload: Callable[[str], str]
) -> None:
    target = f"{bucket}/rescaled"
    pages.open_form()
    pages.fill(**{**request("savepoint", target), "parallelism": 0})
    pages.trigger()
    sentence = pages.refusal().splitlines()[1]
    assert sentence == "Invalid input for param source: 'savepoint' does not match '^ *(/|file:/|s3://|s3a://|s3p://)'"
    pages.fill(source=upload("2-clicks"))
    pages.trigger()
    wait_for(lambda: "parallelism" in pages.refusal(), "the next sentence")
    sentence = pages.refusal().splitlines()[1]
    assert sentence == "Invalid input for param parallelism: '0' does not match '^ *([1-9][0-9]{0,4})? *$'"
    for text in ("abc", "7e2"):
        pages.fill(parallelism=text)
        pages.trigger()
        sentence = f"Invalid input for param parallelism: '{text}' does not match"
        wait_for(lambda sentence_of_field=sentence: sentence_of_field in pages.refusal(), "the next sentence")
    pages.fill(parallelism=" 3 ")
    pages.trigger()
    run_id = pages.wait_for_the_run()
    assert end_of(pages, airflow.run_to(target)) == "success"
    pages.open_run(run_id)
    pages.wait_for_state("Success", PATIENCE_SECONDS)
    assert open_store(target).stat(f"{target}/_metadata")


def test_refusal_of_the_first_task_is_shown_in_its_log(pages: Pages, airflow: AirflowServer, tmp_path: Path) -> None:
    run = airflow.trigger(**request(str(tmp_path), "/rescaled", parallelism=2))
    assert run.end() == "failed"
    assert "there is no snapshot" in pages.log_of(run.run_id, "inspect", "there is no snapshot")


def test_run_is_cancelled_while_it_moves_state(pages: Pages, airflow: AirflowServer, tmp_path: Path) -> None:
    def steps() -> list[str]:
        return [line for line in airflow.watch.running_lines().values() if target in line]

    target = str(tmp_path / "rescaled")
    conf = request(directory("2-clicks"), target, parallelism=3)
    run = airflow.trigger_dag(DAG_ID, conf, dag_run_id=f"lingers-reshuffle_keyed_state-{uuid.uuid4()}")
    wait_for(lambda: any(Step.RESHUFFLE in line for line in steps()), "the process of the step")
    pages.open_run(run.run_id)
    pages.mark_as_failed()
    pages.wait_for_state("Failed", PATIENCE_SECONDS)
    assert run.end() == "failed"
    assert run.states()["reshuffle_keyed_state"] == "failed"
    wait_for(lambda: not steps(), "its end")
    assert not Path(target, "_metadata").exists()


def test_operator_of_a_rocksdb_checkpoint_gets_its_own_shape_and_uid_after_approval(
    pages: Pages, airflow: AirflowServer, tmp_path: Path
) -> None:
    source, target = relocated("2-rocksdb-incremental", tmp_path / "job"), str(tmp_path / "rescaled")
    pages.open_form()
    pages.fill(**request(str(source), target))
    pages.switch_on("require_approval")
    pages.open_section("Files and proof")
    pages.choose("format", "canonical")
    pages.open_section("Renamed or dropped operators")
    pages.fill(renames="clicks-per-user=clicks-by-user", state_drops="clicks-per-user:pages")
    pages.open_section("Single operators")
    pages.fill(operators="clicks-per-user=0")
    pages.trigger()
    sentence = pages.refusal().splitlines()[1]
    assert sentence.startswith("Invalid input for param operators: 'clicks-per-user=0' does not match ")
    pages.fill(operators="clicks-per-user=3/64")
    pages.trigger()
    pages.wait_for_the_run()
    run = airflow.run_to(target)
    pages.leave()
    run.question()
    question = pages.question_of(run.run_id, "approve")
    assert "clicks-by-user 2 → 3 16 → 64 rehash" in question
    assert re.search(r"clicks-per-user \([0-9a-f]{32}\) is renamed to clicks-by-user", question), question
    lost = r"the state pages \(MAP\) of clicks-per-user \([0-9a-f]{32}\) is dropped: .* in files of RocksDB, out of "
    assert re.search(lost, question), question
    assert "shards 2 16" in question
    assert f"{target}.rescale/plan-" in question
    pages.answer("Approve")
    assert end_of(pages, run) == "success"
    pages.open_run(run.run_id)
    pages.wait_for_state("Success", PATIENCE_SECONDS)
    assert "clicks-by-user" in pages.report_in_tab()
    result = open_snapshot(target)
    shapes = {operator.label: (operator.parallelism, operator.max_parallelism) for operator in result.operators}
    assert (shapes["clicks-by-user"], shapes["shards"]) == ((3, 64), (2, 16))
    assert all("pages" not in state_names(operator) for operator in result.operators)
    assert inspection(result).kind == "canonical savepoint (canonical keyed state)"
    certificate = json.loads(Path(f"{target}.rescale/certificate.json").read_bytes())
    assert certificate["verdict"] == "complete"
    assert certificate["candidate_sha256"] == hashlib.sha256(Path(target, "_metadata").read_bytes()).hexdigest()


def test_kafka_consumer_becomes_a_source_with_other_offsets(
    pages: Pages, airflow: AirflowServer, tmp_path: Path
) -> None:
    target = str(tmp_path / "rescaled")
    pages.open_form()
    pages.fill(**request(str(FIXTURES / "kafka" / "1.20-consumer" / "snapshot"), target))
    pages.open_section("Kafka")
    rows = "topic,partition,offset\norders-3,0,7\norders-3,2,drop"
    pages.fill(kafka_offsets=rows, kafka_topics="orders-3=orders", kafka_sources="orders=source")
    pages.trigger()
    run_id = pages.wait_for_the_run()
    assert end_of(pages, airflow.run_to(target)) == "success"
    phrase = "becomes a KafkaSource"
    assert phrase in pages.log_of(run_id, "plan", phrase)
    (offsets,) = kafka_offsets(open_snapshot(target))
    next_offsets = {
        position.partition.partition: position.next
        for position in offsets.positions
        if position.partition.topic == "orders"
    }
    assert (offsets.kind, next_offsets, len(offsets.positions)) == (KafkaKind.SOURCE, {0: 7, 1: 23}, 7)


def test_rejected_plan_and_unanswered_plan_fail_their_runs(
    pages: Pages, airflow: AirflowServer, tmp_path: Path
) -> None:
    def ask(name: str, minutes: float) -> Run:
        conf = request(directory("2-clicks"), str(tmp_path / name), parallelism=3, require_approval=True)
        return airflow.trigger(**conf, approval_minutes=minutes)

    late, rejected = ask("late", 0.01), ask("rejected", 60)
    rejected.question()
    assert "visits 4 → 3" in pages.question_of(rejected.run_id, "approve")
    pages.answer("Reject")
    for run, phrase in ((rejected, f"rejected by {USER}"), (late, "nobody answered in time, so the plan is rejected")):
        assert end_of(pages, run) == "failed"
        pages.open_run(run.run_id)
        pages.wait_for_state("Failed", PATIENCE_SECONDS)
        assert phrase in pages.log_of(run.run_id, "approve", phrase)
        assert re.search(r"the staged files are removed \(\d files\)", pages.log_of(run.run_id, "rejected", "removed"))
        assert "nothing was published: the plan was rejected" in pages.log_of(run.run_id, "end", "rejected")
    assert "Without an answer by" in pages.question_of(late.run_id, "approve")
    assert not pages.can_be_answered
    assert list(tmp_path.iterdir()) == []
