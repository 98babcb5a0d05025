"""A savepoint of a real job whose old Kafka consumer was stopped with it is refused, unless the operator is named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict

from fixtures.table import KAFKA_FIXTURES
from rescale.airflow.forms.form import rescale_form
from rescale.airflow.savepoint_tasks import inspect
from rescale.airflow.steps.retries import TaskEnded
from rescale.snapshot.kafka.offsets import missing_offsets
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError, UnsupportedError

_FOLDER = Path(__file__).parent.parent / "fixtures" / "kafka"
SOURCE = next(str(_FOLDER / fixture.name / "snapshot") for fixture in KAFKA_FIXTURES if fixture.kinds == ("stop",))


def inspected(**values: Any) -> Any:
    """Return the result of the first task."""
    params = ParamsDict(rescale_form())
    params.update({"source": SOURCE, "target": "/rescaled", "same_shape": True, **values})
    filled = dict(params.validate())
    return inspect.function(None, params=filled, dag=SimpleNamespace(params=filled))


def test_the_run_ends_with_the_reason() -> None:
    with pytest.raises(TaskEnded) as ended:
        inspected()
    error = ended.value.error
    assert isinstance(error, UnsupportedError)
    assert "a FlinkKafkaConsumer holds no offset" in error.what
    assert error.operator in missing_offsets(open_snapshot(SOURCE))


def test_an_operator_that_is_named_may_start_without() -> None:
    summary = inspected(without_offsets=list(missing_offsets(open_snapshot(SOURCE))))
    assert summary["warnings"]
    assert any(line.endswith("(FlinkKafkaConsumer): no offsets") for line in summary["kafka"])


def test_one_that_is_dropped_needs_none() -> None:
    dropped = {"drops": list(missing_offsets(open_snapshot(SOURCE))), "require_approval": True}
    assert inspected(**dropped)["operators"]
    with pytest.raises(TaskEnded) as ended:
        inspected(drops=["no-such-operator"], require_approval=True)
    assert isinstance(ended.value.error, RequestError)
