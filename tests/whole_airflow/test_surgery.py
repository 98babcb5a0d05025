"""Jobs that have changed: states and operators are dropped, uids renamed, Kafka offsets moved, consumers migrated."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rescale.demo.airflow_home import DAG_ID, USER
from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.operator_id import operator_id_of_uid
from rescale.runstate.certificate import Certificate, CertifiedOldRows, read_certificate
from rescale.snapshot.kafka.audit import audit
from rescale.snapshot.kafka.offsets import KafkaKind, KafkaOffsets, kafka_offsets
from rescale.snapshot.reading.opening import open_snapshot
from support.airflow_server import AirflowServer, Run, request
from support.snapshots import FIXTURES, directory
from support.timed_rows import TEXTS, VALUES, rows_of, times_in, without_old

pytestmark = pytest.mark.slow

USERS = 16
"""Number of users of the job, each of whom has the state `way`."""

LONG = "a-topic-with-so-long-a-name-that-it-is-written-another-way-than-a-shorter-one"

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "changed job": (
        directory("2-clicks"),
        {
            "parallelism": 3,
            "renames": ["visits=visitors"],
            "drops": ["shards"],
            "state_drops": ["clicks-per-user:way"],
            "require_approval": True,
        },
    ),
    "old rows": (
        directory("2-canonical-rocksdb"),
        {"old_rows": [f"states:{VALUES}=1d", f"states:{TEXTS}=2000000d"], "require_approval": True},
    ),
    "moved source": (
        str(FIXTURES / "kafka" / "1.20-source" / "snapshot"),
        {
            "operator_names": ["orders"],
            "kafka_offsets": "topic,partition,offset\norders-1,0,5\norders-1,1,earliest\n",
            "kafka_topics": ["orders-1=orders"],
        },
    ),
    "migrated consumer": (
        str(FIXTURES / "kafka" / "1.20-consumer" / "snapshot"),
        {
            "parallelism": 3,
            "operator_names": ["orders"],
            "kafka_sources": ["orders=from-kafka"],
            "kafka_offsets": f'[{{"topic": "{LONG}-3", "partition": 4, "offset": "drop"}}]',
            "require_approval": True,
        },
    ),
    "nobody asked": (directory("2-clicks"), {"parallelism": 3, "drops": ["shards"]}),
    "nothing there": (directory("2-clicks"), {"state_drops": ["visits:way"], "require_approval": True}),
}


class StartedRun(NamedTuple):
    """A run whose steps work without Spark, its source and its target."""

    run: Run
    source: str
    target: str

    def published(self) -> Certificate:
        """Return the certificate of the successful run, after checking that only declared changes differ."""
        assert self.run.end() == "success", self.run.states()
        certificate = read_certificate(self.target)
        source, result = open_snapshot(self.source), open_snapshot(self.target)
        assert diff_snapshots(source, result, InProcessTasks(), certificate.surgery).equal
        assert not diff_snapshots(source, result, InProcessTasks()).equal
        return certificate

    def offsets(self) -> KafkaOffsets:
        (source,) = kafka_offsets(open_snapshot(self.target))
        assert list(audit([source])) == []
        return source


@pytest.fixture(scope="module")
def started_runs(airflow: AirflowServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, StartedRun]:
    """Begin all runs at once."""
    targets = tmp_path_factory.mktemp("targets")

    def begin(name: str, source: str, form: dict[str, Any]) -> StartedRun:
        target = str(targets / name.replace(" ", "-"))
        conf = request(source, target, **form)
        return StartedRun(airflow.trigger_dag(DAG_ID, conf, dag_run_id=f"fails-nothing-{uuid.uuid4()}"), source, target)

    return {name: begin(name, *form) for name, form in FORMS.items()}


def approve(run: Run, *lines: str) -> None:
    """Approve the plan, after checking that the question lists exactly these losses and changes (patterns)."""
    question = run.question()["body"]
    declared = question.partition("Declared differences")[2].partition("Costs")[0]
    questions = [line.removeprefix("* ") for line in declared.splitlines() if line.startswith("* ")]
    assert len(questions) == len(lines), declared
    for line, pattern in zip(questions, lines, strict=True):
        assert re.fullmatch(pattern, line), declared
    run.answer("Approve")


def test_losses_are_listed_in_the_question_and_missing_after_approval(started_runs: dict[str, StartedRun]) -> None:
    started = started_runs["changed job"]
    approve(
        started.run,
        r"visits \([0-9a-f]{32}\) is renamed to visitors \([0-9a-f]{32}\)",
        r"shards \([0-9a-f]{32}\) is dropped: 1\.75 kB of state are lost: "
        r"shards \(SPLIT_DISTRIBUTE, 13 elements\), owners \(UNION, 4 elements\)",
        r"the state way \(LIST\) of clicks-per-user \([0-9a-f]{32}\) is dropped: some of .* of keyed state are lost",
    )
    certificate = started.published()
    assert f"approved by {USER}" in started.run.log_text("approve")
    result = {operator.label: operator for operator in open_snapshot(started.target).operators}
    assert {"visitors", "clicks-per-user"} <= result.keys()
    assert result.keys().isdisjoint({"visits", "shards"})
    assert result["visitors"].operator_id == operator_id_of_uid("visitors")
    assert {len(result[label].entry.subtasks) for label in ("visitors", "clicks-per-user")} == {3}
    left_out = [operator.records.left_out for operator in certificate.operators if operator.records is not None]
    assert [lost for lost in left_out if lost] == [{"way": USERS}]


def test_old_rows_are_listed_in_the_question_and_missing_after_approval(started_runs: dict[str, StartedRun]) -> None:
    started = started_runs["old rows"]
    approve(
        started.run,
        rf"the state {VALUES} \(VALUE\) of states \([0-9a-f]{{32}}\) loses the rows that were last accessed at or "
        r"before 20\d\d-.*Z: the run counts them, in 25\.2 kB of keyed state",
        rf"the state {TEXTS} \(LIST\) of states \([0-9a-f]{{32}}\) loses the rows .*",
    )
    certificate = started.published()
    old = [operator.records.old_rows for operator in certificate.operators if operator.records is not None]
    rows = rows_of(started.source, "states")
    assert {VALUES: CertifiedOldRows(len(rows[VALUES]), 0), TEXTS: CertifiedOldRows(0, 0)} in old
    young_rows = without_old(rows, {VALUES: times_in({VALUES: rows[VALUES]})[-1]})
    assert rows_of(started.target, "states") == young_rows


def test_kafka_source_reads_on_from_the_offsets_in_the_form(started_runs: dict[str, StartedRun]) -> None:
    started = started_runs["moved source"]
    started.published()
    log = started.run.log_text("plan")
    assert "orders (KafkaSource): the topic orders-1 is renamed to orders" in log
    assert "reads 2 partitions from another offset: orders-1-0 from 5 instead of 20 (15 read again)" in log
    next_offsets = {str(position.partition): position.next for position in started.offsets().positions}
    assert {name: next_offsets[name] for name in ("orders-0", "orders-2", f"{LONG}-1-4")} == {
        "orders-0": 5,
        "orders-2": 26,
        f"{LONG}-1-4": 32,
    }
    assert len(next_offsets) == 8


def test_consumer_becomes_a_source_after_approval_of_its_lost_offset(started_runs: dict[str, StartedRun]) -> None:
    started = started_runs["migrated consumer"]
    approve(
        started.run,
        r"orders \([0-9a-f]{32}\) is renamed to from-kafka \([0-9a-f]{32}\)",
        r"orders \(FlinkKafkaConsumer\) becomes a KafkaSource: .*",
        rf"orders \(FlinkKafkaConsumer\) loses the offsets of 1 partition: {LONG}-3-4",
    )
    started.published()
    source = started.offsets()
    assert (source.kind, source.operator.operator_id) == (KafkaKind.SOURCE, operator_id_of_uid("from-kafka"))
    assert {str(position.partition): position.next for position in source.positions} == {
        **{f"orders-3-{number}": 20 + 3 * number for number in range(3)},
        **{f"{LONG}-3-{number}": 20 + 3 * number for number in range(4)},
    }


@pytest.mark.parametrize(
    ("name", "task_id", "sentence"),
    [
        ("nobody asked", "inspect", 'switch "Ask before anything moves" on'),
        ("nothing there", "plan", "no state 'way' in the operator"),
    ],
)
def test_drop_without_approval_or_of_an_unknown_state_is_refused(
    started_runs: dict[str, StartedRun], name: str, task_id: str, sentence: str
) -> None:
    started = started_runs[name]
    assert started.run.end() == "failed", started.run.states()
    assert started.run.states()[task_id] == "failed"
    assert sentence in started.run.log_text(task_id)
    assert not Path(f"{started.target}.rescale").exists()
