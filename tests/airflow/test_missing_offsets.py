"""A savepoint whose Kafka consumer lost its offsets when it was stopped is refused unless the operator is named."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fixtures.table import KAFKA_FIXTURES
from rescale.airflow.savepoint_tasks import inspect
from rescale.airflow.steps.retries import TaskEnded
from rescale.snapshot.kafka.offsets import labels_without_offsets
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError, UnsupportedError
from support.filled_forms import filled

_FOLDER = Path(__file__).parent.parent / "fixtures" / "kafka"
SOURCE = next(str(_FOLDER / fixture.name / "snapshot") for fixture in KAFKA_FIXTURES if fixture.kinds == ("stop",))


def inspect_task(**values: Any) -> Any:
    """Return the result of the first task."""
    params = filled(source=SOURCE, target="/rescaled", same_shape=True, **values)
    return inspect.function(None, params=params, dag=SimpleNamespace(params=params))


def test_missing_offsets_of_a_consumer_end_the_run() -> None:
    with pytest.raises(TaskEnded) as ended:
        inspect_task()
    error = ended.value.error
    assert isinstance(error, UnsupportedError)
    assert "a FlinkKafkaConsumer holds no offset" in error.what
    assert error.operator in labels_without_offsets(open_snapshot(SOURCE))


def test_named_operator_may_start_without_offsets() -> None:
    summary = inspect_task(without_offsets=list(labels_without_offsets(open_snapshot(SOURCE))))
    assert summary["warnings"]
    assert any(line.endswith("(FlinkKafkaConsumer): no offsets") for line in summary["kafka"])


def test_dropped_operator_needs_no_offsets() -> None:
    dropped = {"drops": list(labels_without_offsets(open_snapshot(SOURCE))), "require_approval": True}
    assert inspect_task(**dropped)["operators"]
    with pytest.raises(TaskEnded) as ended:
        inspect_task(drops=["no-such-operator"], require_approval=True)
    assert isinstance(ended.value.error, RequestError)
