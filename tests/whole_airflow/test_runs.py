"""Runs over the REST API of a whole Airflow: refused, successful, cancelled, failed."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, create_engine, select

from big_savepoint import write_savepoint
from rescale.airflow.summaries import LARGEST_SUMMARY_BYTES
from rescale.demo.airflow_home import DAG_ID
from rescale.storage.store import open_store
from support.airflow_server import AirflowServer, Run, request, wait_for
from support.slow import slow_but
from support.snapshots import directory
from support.whole_airflow import ADDRESS_PASSWORD

TASKS = ("inspect", "plan", "reshuffle_keyed_state", "redistribute_operator_state", "validate", "publish")
"""Tasks that run and have an output in every successful run."""


def read(uri: str) -> bytes:
    return open_store(uri).read_all(uri, 1 << 30)[0]


def errors(run: Run, task_id: str, attempt: int | None = None) -> list[str]:
    return [line["event"] for line in run.log(task_id, attempt) if line.get("level") == "error"]


@pytest.fixture(scope="module")
def successful_run(airflow: AirflowServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, str]:
    """Return a successful run and its target."""
    target = str(tmp_path_factory.mktemp("targets") / "rescaled")
    run = airflow.trigger(**request(directory("2-clicks"), target, parallelism=3))
    assert run.end() == "success", run.states()
    return run, target


def test_every_task_succeeds_at_the_first_try(successful_run: tuple[Run, str]) -> None:
    run, _ = successful_run
    ends = {task_id: (instance["state"], instance["try_number"]) for task_id, instance in run.tasks().items()}
    expected = dict.fromkeys((*TASKS, "announce", "end"), ("success", 1))
    assert ends == {**expected, "approve": ("skipped", 1), "rejected": ("skipped", 0)}
    assert "nobody has to approve the plan: neither the form nor the settings require it" in run.log_text("approve")


def test_tasks_that_read_no_state_warn_of_nothing(successful_run: tuple[Run, str]) -> None:
    run, target = successful_run
    for task_id in ("approve", "publish", "announce", "end"):
        assert {line.get("level") for line in run.log(task_id)} <= {"info", None}, task_id
    assert f"the result was published: {target}" in run.log_text("end")
    assert "{" not in run.log_text("end")


def test_log_of_the_plan_shows_what_will_be_moved(successful_run: tuple[Run, str]) -> None:
    run, target = successful_run
    log = "\n".join(line["event"] for line in run.log("plan"))
    assert f"to   {target}" in log
    assert "relocate: the max parallelism stays" in log


def test_asset_event_names_result_certificate_and_shape(successful_run: tuple[Run, str]) -> None:
    run, target = successful_run
    _, document = run.airflow.api("GET", f"/assets/events?source_run_id={run.run_id.replace('+', '%2B')}")
    (event,) = document["asset_events"]
    certificate = f"{target}.rescale/certificate.json"
    assert (event["name"], event["source_dag_id"], event["source_task_id"]) == (
        "rescaled_savepoint",
        DAG_ID,
        "announce",
    )
    extra = event["extra"]
    assert (extra["uri"], extra["certificate"]) == (target, certificate)
    assert extra["certificate_sha256"] == hashlib.sha256(read(certificate)).hexdigest()
    certified = json.loads(read(certificate))["candidate_sha256"]
    assert certified == hashlib.sha256(read(f"{target}/_metadata")).hexdigest()
    assert extra["shape"]["visits"] == {"parallelism": 3, "max_parallelism": 128}


@pytest.mark.slow
@pytest.mark.parametrize(
    "dag_id", ["after_a_rescale_by_constant", "after_a_rescale_by_name_and_uri", "example_after_a_rescale"]
)
def test_dag_that_is_scheduled_on_the_asset_runs(successful_run: tuple[Run, str], dag_id: str) -> None:
    run, target = successful_run

    def targets() -> list[str]:
        _, document = run.airflow.api("GET", f"/dags/{dag_id}/dagRuns")
        ids = [entry["dag_run_id"].replace("+", "%2B") for entry in document["dag_runs"] if entry["state"] == "success"]
        events = [run.airflow.api("GET", f"/dags/{dag_id}/dagRuns/{run_id}/upstreamAssetEvents")[1] for run_id in ids]
        return [event["extra"]["uri"] for document in events for event in document["asset_events"]]

    wait_for(lambda: target in targets(), f"a run of {dag_id}")


@pytest.mark.slow
def test_repeated_run_of_a_published_plan_succeeds_without_a_second_event(successful_run: tuple[Run, str]) -> None:
    first, target = successful_run
    second = first.airflow.trigger(**request(directory("2-clicks"), target, parallelism=3, require_approval=True))
    assert second.end() == "success", second.states()
    states = second.states()
    assert (states["publish"], states["announce"], states["end"]) == ("success", "skipped", "success")
    assert "the asset already has an event of this result" in second.log_text("announce")
    assert "nobody has to approve the plan: its result is already published" in second.log_text("approve")
    _, document = first.airflow.api("GET", "/assets/events?limit=1000")
    assert [event["extra"]["uri"] for event in document["asset_events"]].count(target) == 1


def test_outputs_of_tasks_are_small(successful_run: tuple[Run, str]) -> None:
    run, _ = successful_run
    for task_id in TASKS:
        assert len(json.dumps(run.xcom(task_id))) <= LARGEST_SUMMARY_BYTES


def test_log_of_the_publishing_task_shows_the_start_command_and_the_certificate(
    successful_run: tuple[Run, str],
) -> None:
    run, target = successful_run
    log = [line["event"] for line in run.log("publish")]
    assert any(line.startswith(f"start the job: flink run -s {target} -p 3") for line in log)
    certificate = read(f"{target}.rescale/certificate.json")
    assert f"certificate: {target}.rescale/certificate.json, SHA-256 {hashlib.sha256(certificate).hexdigest()}" in log
    assert any(re.match(r"verdict: complete \(proof by records\): \d+ operators, .* compared", line) for line in log)


def test_tasks_link_to_the_report(successful_run: tuple[Run, str]) -> None:
    run, target = successful_run
    (address,) = {run.links(task_id)["Report"] for task_id in ("plan", "validate", "publish")}
    assert run.links("inspect") == {}
    status, _, page = run.airflow.page(str(address))
    assert (status, page) == (200, read(f"{target}.rescale/report.html"))


def rows_of_the_database(airflow: AirflowServer) -> list[str]:
    """Return all rows of all tables of Airflow's database, as text."""
    engine = create_engine(airflow.home.environment["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    with engine.connect() as connection:
        known = MetaData()
        known.reflect(connection)
        return [str(row) for table in known.sorted_tables for row in connection.execute(select(table))]


@pytest.mark.slow
def test_secret_is_in_no_file_database_log_or_command_line(
    airflow: AirflowServer, bucket: str, upload: Callable[[str], str]
) -> None:
    target = f"{bucket}/rescaled"
    run = airflow.trigger(**request(upload("2-heap-native"), target, same_shape=True))
    assert run.end() == "success", run.states()
    secret = airflow.secret.encode()
    for entry in (*open_store(target).list(target), *open_store(target).list(f"{target}.rescale")):
        assert secret not in read(entry.uri), entry.uri
    assert airflow.page(str(run.links("publish")["Report"]))[2] == read(f"{target}.rescale/report.html")
    rows = rows_of_the_database(airflow)
    assert any(target in row for row in rows), "XComs and rendered fields were not seen"
    assert [row for row in rows if airflow.secret in row] == []
    files = [path for path in airflow.home.folder.rglob("*") if path.is_file()]
    assert any(path.match("*/task_id=publish/attempt=1.log") for path in files)
    assert [path for path in files if secret in path.read_bytes()] == []
    lines = airflow.watch.command_lines
    assert any("reshuffle_keyed_state" in line for line in lines), "the command lines of steps were not seen"
    assert [line for line in lines if airflow.secret in line] == []
    # Steps do not get what they do not need: connections, and the keys that Airflow signs and encrypts with.
    steps = {
        line: environment
        for line, environment in airflow.watch.environments.items()
        if "--plan" in line or "pyspark" in line
    }
    assert any("reshuffle_keyed_state" in line for line in steps)
    for line, environment in steps.items():
        settings = " ".join(f"{name}={value}" for name, value in environment.items())
        assert not any(own in settings for own in ("AIRFLOW__", "AIRFLOW_CONN", airflow.secret, airflow.home.secret)), (
            line
        )
    for task_id in TASKS:
        assert airflow.secret not in json.dumps([run.task(task_id), run.xcom(task_id), run.log(task_id)])


def test_all_servers_listen_on_the_loopback_address(successful_run: tuple[Run, str]) -> None:
    airflow = successful_run[0].airflow
    assert airflow.watch.addresses
    assert airflow.watch.addresses.keys() <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}, airflow.watch.addresses


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"source": "savepoint"}, "Invalid input for param source: 'savepoint' does not match '^ *(/|file:/|s3://"),
        ({"target": None}, "Invalid input for param target: None is not of type 'string'"),
        ({"parallelism": 0}, "Invalid input for param parallelism: 0 is less than or equal to the minimum of 0"),
        (
            {"parallelism": "six"},
            "Invalid input for param parallelism: 'six' does not match '^ *([1-9][0-9]{0,4})? *$'",
        ),
        ({"parallelism": "7e2"}, "Invalid input for param parallelism: '7e2' does not match"),
        ({"operators": {"visits": 3}}, "Invalid input for param operators: 3 is not of type 'object'"),
        (
            {"format": "native"},
            "Invalid input for param format: 'native' is not one of ['keep', 'canonical', 'rocksdb']",
        ),
    ],
)
def test_wrong_value_is_refused_by_the_api(airflow: AirflowServer, fields: dict[str, Any], sentence: str) -> None:
    status, document = airflow.try_to_trigger(**{**request("/save", "/rescaled"), **fields})
    assert status == 400
    assert document["detail"].startswith(sentence)


FINAL_ERRORS: dict[str, tuple[dict[str, Any], str, str]] = {
    "request": ({"parallelism": 129}, "plan", "the parallelism is above the operator's max parallelism"),
    "field": ({"paralelism": 3}, "inspect", "a value was given for a field that the form does not have"),
    "connection": ({"connection": "nobody"}, "inspect", "there is no connection 'nobody'"),
    "no change": ({"parallelism": None}, "inspect", "the form asks for no change"),
    "the same shape": ({"parallelism": 4}, "plan", "the state in "),
    "no snapshot": ({"source": "/nothing/there"}, "inspect", "there is no snapshot"),
    "damage": ({"source": "CUT"}, "inspect", "an impossible count"),
    "damage in a step": (
        {"source": "TORN", "max_parallelism": 1000},
        "reshuffle_keyed_state",
        "a key group ends inside a record",
    ),
    "kind": (
        {"source": directory("2-raw"), "max_parallelism": 256},
        "plan",
        "the operator has raw keyed state in a format of its own",
    ),
    "unsupported": ({"source": directory("1.20-unaligned")}, "plan", "this is an unaligned checkpoint"),
}
"""Wrong values, the task that finds each, and the beginning of its error."""


@pytest.fixture(scope="module")
def failed_runs(
    airflow: AirflowServer, tmp_path_factory: pytest.TempPathFactory, values_to_run: Callable[[str], set[str]]
) -> dict[str, Run]:
    """Trigger a run for each of `FINAL_ERRORS` whose test will run, all at once; return the failed runs."""
    folder = tmp_path_factory.mktemp("damaged")
    damaged = {name: shutil.copytree(directory("2-clicks"), folder / name) for name in ("CUT", "TORN")}
    metadata = damaged["CUT"] / "_metadata"
    metadata.write_bytes(metadata.read_bytes()[:100])
    state = max(damaged["TORN"].glob("[!_]*"), key=lambda file: file.stat().st_size)
    state.write_bytes(state.read_bytes()[:-2] + b"\0\0")
    runs = {}
    for name in values_to_run("name"):
        wrong, _, _ = FINAL_ERRORS[name]
        conf = {**request(directory("2-clicks"), str(folder / "rescaled" / name), parallelism=3), **wrong}
        runs[name] = airflow.trigger(**{**conf, "source": str(damaged.get(conf["source"], conf["source"]))})
    for run in runs.values():
        assert run.end() == "failed"
    return runs


@pytest.mark.parametrize("name", slow_but(lambda name: name == "request", FINAL_ERRORS))
def test_final_error_fails_at_once_with_its_message(failed_runs: dict[str, Run], name: str) -> None:
    run, (_, task_id, sentence) = failed_runs[name], FINAL_ERRORS[name]
    task = run.task(task_id)
    assert (task["state"], task["try_number"]) == ("failed", 1)
    log = json.dumps(run.log(task_id))
    assert any(line.startswith(sentence) for line in errors(run, task_id)), errors(run, task_id)
    assert run.log_text(task_id).count(sentence) == 1
    assert "Traceback" not in log
    assert "error_detail" not in log


@pytest.mark.slow
def test_store_error_is_retried(airflow: AirflowServer) -> None:
    run = airflow.trigger(**request("s3://bucket/save", "s3://bucket/rescaled", connection="broken", parallelism=2))
    wait_for(lambda: run.task("inspect")["try_number"] > 1, "the second try")
    assert any(line.startswith("S3 cannot be reached") for line in errors(run, "inspect", 1))
    log = run.log("inspect", 1)
    assert "Traceback" not in json.dumps(log)
    assert ADDRESS_PASSWORD not in json.dumps([run.task("inspect"), log])
    run.cancel()


@pytest.mark.slow
def test_cancelled_run_leaves_no_process(airflow: AirflowServer, tmp_path: Path) -> None:
    def steps() -> list[int]:
        return [
            pid for pid, line in airflow.watch.running_lines().items() if "--plan" in line or "worker_server" in line
        ]

    source, target = tmp_path / "savepoint", tmp_path / "rescaled"
    write_savepoint(source, 300_000_000)
    run = airflow.trigger(**request(str(source), str(target), parallelism=2, max_parallelism=1000))
    wait_for(lambda: len(steps()) > 2, "workers to be there")
    run.cancel()
    wait_for(lambda: not steps(), "all to be gone")
    assert run.end() == "failed"
    assert run.task("reshuffle_keyed_state")["state"] == "failed"
    time.sleep(1)
    assert steps() == []
    assert not (target / "_metadata").exists()
