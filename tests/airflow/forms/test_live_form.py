"""Fields of a rescale while the job runs: which combinations are accepted and which are refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import ParamValidationError

from rescale.airflow.forms.live_form import CutOverRule, LiveRequest, followed_options, live_request_of
from rescale.text.errors import RequestError
from support.filled_forms import filled_of_job

LIVE = {"while_it_runs": True, "taking": "checkpoint"}


def filled(**values: Any) -> dict[str, Any]:
    return filled_of_job(flink="http://jobmanager:8081", job="clicks", target="s3://state/new", **values)


def test_job_is_stopped_first_by_default() -> None:
    assert live_request_of(filled(taking="stop", cut_over="when approved")) is None


def test_cut_over_comes_when_ready_by_default() -> None:
    assert live_request_of(filled(**LIVE)) == LiveRequest(False, CutOverRule.READY, None, None, 300, None)


def test_times_are_in_the_zone_that_they_name() -> None:
    live = live_request_of(filled(**LIVE, not_before="2030-01-02T03:04:05Z"))
    assert live is not None
    assert live.not_before == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_result_may_refer_to_files_of_the_last_checkpoint() -> None:
    live = live_request_of(filled(**LIVE, files="refer", parallelism="6"))
    assert live is not None
    assert live.refers_to_source


def test_rate_is_bytes_per_second() -> None:
    live = live_request_of(filled(**LIVE, pause_above="500MB/s"))
    assert live is not None
    assert live.most_bytes_per_second == 500_000_000


@pytest.mark.parametrize(
    ("values", "advice"),
    [
        ({"taking": "stop"}, "stop"),
        ({"renames": ["a=b"]}, "Operators to rename"),
        ({"format": "canonical"}, "Format of the result"),
        ({"kafka_topics": ["a=b"], "drops": ["c"]}, "Operators to drop, Kafka topics to rename"),
        ({"pause_above": "fast"}, "fast"),
        ({"pause_above": "0.5B/s"}, "0.5B/s"),
    ],
)
def test_fields_for_a_stopped_job_are_refused(values: dict[str, Any], advice: str) -> None:
    with pytest.raises(RequestError) as caught:
        live_request_of(filled(**{**LIVE, **values}))
    assert caught.value.found == advice
    assert caught.value.advice is not None or caught.value.option is not None


@pytest.mark.parametrize("seconds", [0, -1, 3601, "soon"])
def test_times_are_at_most_an_hour(seconds: object) -> None:
    for field in ("most_downtime", "give_up_after"):
        with pytest.raises(ParamValidationError):
            filled(**{field: seconds})


def test_options_of_the_follower_hold_shape_and_files() -> None:
    options = followed_options(filled(**LIVE, parallelism="6", operators=["uid=/1000"]))
    assert (options["parallelism"], options["max-parallelism"]) == (["6"], ["uid=1000"])
    assert "files" not in options
    assert followed_options(filled(**LIVE, files="refer"))["files"] == "refer"
