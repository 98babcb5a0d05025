"""The form of a running job says how it is stopped and started, and what lacks is refused with one sentence."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import ParamValidationError

from rescale.airflow.forms.job_form import check_renames, hand_over_of, job_form, taking_of
from rescale.airflow.hand_overs import PatchDeployment, Print, RunJar
from rescale.flink_rest.client import StopMode
from rescale.planning.request.request import make_request
from rescale.planning.request.surgery_request import parse_surgery
from rescale.text.errors import RequestError

_NEEDED = {
    "flink": "http://jobmanager:8081",
    "job": "clicks",
    "savepoints": "s3://state/savepoints",
    "target": "s3://state/rescaled",
}


def filled(**values: Any) -> dict[str, Any]:
    params = ParamsDict(job_form())
    params.update({**_NEEDED, **values})
    return dict(params.validate())


def test_by_default_the_job_runs_on_and_a_command_is_printed() -> None:
    params = filled()
    assert taking_of(params, hand_over_of(params)) is StopMode.RUN_ON
    assert hand_over_of(params) == Print()
    assert params["savepoint_format"] == "canonical"


def test_a_jar_is_run_where_the_job_ran() -> None:
    params = filled(
        taking="stop",
        hand_over="jar",
        jar="clicks.jar",
        entry_class="Clicks",
        arguments=["--fast"],
        flink_options={"a": "b"},
    )
    assert hand_over_of(params) == RunJar(_NEEDED["flink"], "clicks.jar", "Clicks", ("--fast",), {"a": "b"})
    assert taking_of(params, hand_over_of(params)) is StopMode.STOP


def test_an_empty_line_is_no_argument_of_the_program() -> None:
    """The form makes one of every line, of the end of the last one too."""
    params = filled(taking="stop", hand_over="jar", jar="clicks.jar", arguments=["--fast", "", "--wide", ""])
    hand_over = hand_over_of(params)
    assert isinstance(hand_over, RunJar)
    assert hand_over.arguments == ("--fast", "--wide")


def test_a_deployment_is_named_with_its_namespace() -> None:
    params = filled(taking="cancel", hand_over="deployment", deployment="flink/clicks", kubernetes_connection="k8s")
    assert hand_over_of(params) == PatchDeployment("flink", "clicks", "k8s")
    assert taking_of(params, hand_over_of(params)) is StopMode.CANCEL


@pytest.mark.parametrize(
    ("values", "field"), [({"hand_over": "jar"}, "jar"), ({"hand_over": "deployment"}, "deployment")]
)
def test_a_hand_over_without_what_it_needs_is_refused(values: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError, match=f"needs the field '{field}'"):
        hand_over_of(filled(**values))


def test_a_hand_over_is_the_one_whose_field_is_filled_in() -> None:
    assert isinstance(hand_over_of(filled(taking="stop", jar="clicks.jar")), RunJar)
    assert isinstance(hand_over_of(filled(taking="stop", deployment="flink/clicks")), PatchDeployment)
    with pytest.raises(RequestError) as caught:
        hand_over_of(filled(taking="stop", jar="clicks.jar", deployment="flink/clicks"))
    assert caught.value.option == '"Hand over"'


def test_starting_the_job_is_not_folded() -> None:
    form = job_form()
    assert [name for name in ("hand_over", "jar", "deployment") if "section" in form[name].schema] == []


def test_a_job_that_runs_on_is_not_started_a_second_time() -> None:
    params = filled(hand_over="jar", jar="clicks.jar")
    with pytest.raises(RequestError, match="the job would run twice"):
        taking_of(params, hand_over_of(params))


@pytest.mark.parametrize(
    "wrong",
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
def test_a_wrong_value_is_refused_by_the_schema(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        filled(**wrong)


def test_a_job_that_the_run_starts_keeps_the_names_of_its_operators() -> None:
    request = make_request("/save", "/rescaled", surgery=parse_surgery(renames=["visits=visitors"]))
    check_renames(request, Print())
    check_renames(make_request("/save", "/rescaled"), PatchDeployment("flink", "clicks", None))
    with pytest.raises(RequestError, match="the same program cannot restore") as caught:
        check_renames(request, PatchDeployment("flink", "clicks", None))
    assert caught.value.found == "visits renamed to visitors"
