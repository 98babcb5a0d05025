"""Before a job is stopped, the log says what a start from a jar would lack."""

from __future__ import annotations

import logging
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from rescale.airflow import task_log
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.job.jar_options import log_jar_options
from rescale.flink_rest.responses import CheckpointConfig
from rescale.flink_rest.running_job import Job

JOB = Job("1" * 32, "clicks", "RUNNING", ())
RUNNING = {
    "state_backend": "EmbeddedRocksDBStateBackend",
    "interval": 10000,
    "externalization": {"enabled": True, "delete_on_cancellation": False},
}
OPTIONS = {
    "state.backend.type": "rocksdb",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}


def logged(
    caplog: pytest.LogCaptureFixture, of_cluster: dict[str, str], of_form: dict[str, str], running: Any = RUNNING
) -> str:
    caplog.set_level(logging.INFO, logger=task_log.__name__)
    config = None if running is None else msgspec.convert(running, CheckpointConfig)
    flink: Any = Mock(checkpoint_config=Mock(return_value=config), configuration=Mock(return_value=of_cluster))
    log_jar_options(flink, JOB, RunJar("http://flink", "clicks.jar", None, ("--topic", "clicks"), of_form))
    return " ".join(" ".join(record.getMessage() for record in caplog.records).split())


@pytest.mark.parametrize("missing", OPTIONS)
@pytest.mark.parametrize("in_form", [True, False])
def test_options_of_the_running_job_are_compared(missing: str, in_form: bool, caplog: pytest.LogCaptureFixture) -> None:
    options = {name: value for name, value in OPTIONS.items() if name != missing}
    text = logged(caplog, *(({}, options) if in_form else (options, {})))
    assert "the arguments of the form; the running job may have others: --topic clicks" in text
    assert f"neither the cluster nor the form sets: {missing}: " in text
    for name in options:
        assert name not in text


def test_old_name_of_the_state_backend_counts(caplog: pytest.LogCaptureFixture) -> None:
    options = {
        **OPTIONS,
        "state.backend": "org.apache.flink.contrib.streaming.state.EmbeddedRocksDBStateBackendFactory",
    }
    del options["state.backend.type"]
    assert "warning" not in logged(caplog, options, {})


@pytest.mark.parametrize("running", [None, {"state_backend": "HashMapStateBackend", "interval": (1 << 63) - 1}])
def test_nothing_is_missed_of_a_job_that_has_no_such_options(running: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert "neither the cluster nor the form" not in logged(caplog, {}, {}, running)


@pytest.mark.parametrize("managed", [True, False])
def test_cluster_of_flinks_operator_is_warned_of(managed: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Since release 1.8 of the operator, the id of a job does not show that it belongs to a FlinkSessionJob."""
    of_operator = {"$internal.flink.version": "v1_20"} if managed else {}
    text = logged(caplog, {**OPTIONS, **of_operator}, {})
    assert ("may start the job again beside the one of the jar" in text) is managed
