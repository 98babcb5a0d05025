"""The form of a running job says how the job is stopped and started; missing fields are refused in one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.providers.common.compat.sdk import ParamValidationError

from rescale.airflow.forms.job_form import check_renames, hand_over_of, job_form, stop_mode_of
from rescale.airflow.hand_overs import PatchDeployment, Print, RunJar
from rescale.flink_rest.client import StopMode
from rescale.planning.request.request import make_request
from rescale.planning.request.surgery_request import parse_surgery
from rescale.text.errors import RequestError
from support.filled_forms import filled_of_job

_NEEDED = {
    "flink": "http://jobmanager:8081",
    "job": "clicks",
    "savepoints": "s3://state/savepoints",
    "target": "s3://state/rescaled",
}


def filled(**values: Any) -> dict[str, Any]:
    return filled_of_job(**{**_NEEDED, **values})


def test_job_runs_on_and_a_command_is_printed_by_default() -> None:
    params = filled()
    assert stop_mode_of(params, hand_over_of(params)) is StopMode.RUN_ON
    assert hand_over_of(params) == Print()
    assert params["savepoint_format"] == "canonical"


def test_jar_is_run_on_the_cluster_of_the_job() -> None:
    params = filled(
        taking="stop",
        hand_over="jar",
        jar="clicks.jar",
        entry_class="Clicks",
        arguments=["--fast"],
        flink_options={"a": "b"},
    )
    assert hand_over_of(params) == RunJar(_NEEDED["flink"], "clicks.jar", "Clicks", ("--fast",), {"a": "b"})
    assert stop_mode_of(params, hand_over_of(params)) is StopMode.STOP


def test_empty_lines_are_no_arguments_of_the_program() -> None:
    """The form makes an argument of every line, even of the empty one after the last line break."""
    params = filled(taking="stop", hand_over="jar", jar="clicks.jar", arguments=["--fast", "", "--wide", ""])
    hand_over = hand_over_of(params)
    assert isinstance(hand_over, RunJar)
    assert hand_over.arguments == ("--fast", "--wide")


def test_deployment_is_named_with_its_namespace() -> None:
    params = filled(taking="cancel", hand_over="deployment", deployment="flink/clicks", kubernetes_connection="k8s")
    assert hand_over_of(params) == PatchDeployment("flink", "clicks", "k8s")
    assert stop_mode_of(params, hand_over_of(params)) is StopMode.CANCEL


@pytest.mark.parametrize(
    ("values", "field"), [({"hand_over": "jar"}, "jar"), ({"hand_over": "deployment"}, "deployment")]
)
def test_hand_over_without_its_field_is_refused(values: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError, match=f"needs the field '{field}'"):
        hand_over_of(filled(**values))


def test_hand_over_is_chosen_by_the_field_that_is_filled_in() -> None:
    assert isinstance(hand_over_of(filled(taking="stop", jar="clicks.jar")), RunJar)
    assert isinstance(hand_over_of(filled(taking="stop", deployment="flink/clicks")), PatchDeployment)
    with pytest.raises(RequestError) as caught:
        hand_over_of(filled(taking="stop", jar="clicks.jar", deployment="flink/clicks"))
    assert caught.value.option == '"Hand over"'


def test_fields_that_start_the_job_are_unfolded() -> None:
    form = job_form()
    assert [name for name in ("hand_over", "jar", "deployment") if "section" in form[name].schema] == []


def test_hand_over_of_a_job_that_runs_on_is_refused() -> None:
    params = filled(hand_over="jar", jar="clicks.jar")
    with pytest.raises(RequestError, match="the job would run twice"):
        stop_mode_of(params, hand_over_of(params))


@pytest.mark.parametrize(
    "fields",
    [
        {"flink": ""},
        {"flink": "http://me:secret@jobmanager:8081"},
        {"job": None},
        {"savepoints": "savepoints"},
        {"taking": "kill"},
        {"savepoint_format": "incremental"},
        {"hand_over": "ssh"},
        {"deployment": "clicks"},
        {"deployment": "a/b/c"},
        {"flink_options": {"parallelism.default": 4}},
        {"arguments": "--fast"},
    ],
    ids=str,
)
def test_invalid_value_is_refused_by_the_schema(fields: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        filled(**fields)


def test_rename_is_refused_if_the_run_starts_the_same_program() -> None:
    request = make_request("/save", "/rescaled", surgery=parse_surgery(renames=["visits=visitors"]))
    check_renames(request, Print())
    check_renames(make_request("/save", "/rescaled"), PatchDeployment("flink", "clicks", None))
    with pytest.raises(RequestError, match="the same program cannot restore") as caught:
        check_renames(request, PatchDeployment("flink", "clicks", None))
    assert caught.value.found == "visits renamed to visitors"
