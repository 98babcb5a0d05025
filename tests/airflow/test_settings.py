"""The platform's settings for all DAGs are accepted as a whole, or refused with the name of the wrong field."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rescale.airflow.forms.dag_arguments import dag_arguments
from rescale.airflow.forms.form import discard_form, rescale_form
from rescale.airflow.settings import SETTINGS_VARIABLE, PlansToApprove, SparkSettings, read_settings, settings
from rescale.demo.airflow_home import dag_folder
from rescale.text.errors import RequestError


@pytest.fixture(autouse=True)
def fresh_settings() -> Iterator[None]:
    """Clear the settings, which a process reads once."""
    settings.cache_clear()
    yield
    settings.cache_clear()


def write_settings(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "settings.yaml"
    path.write_text(text)
    monkeypatch.setenv(SETTINGS_VARIABLE, str(path))


def test_defaults_of_airflow_hold_without_a_settings_file() -> None:
    arguments = dag_arguments(rescale_form())
    assert arguments["tags"] == ["rescale", "flink"]
    assert (arguments["default_args"], arguments["on_failure_callback"]) == ({}, None)
    assert "max_active_runs" not in arguments


def test_settings_set_arguments_of_tasks_tags_runs_and_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(
        tmp_path,
        "tasks: {owner: ada, pool: rescale, queue: big, priority_weight: 3, timeout_minutes: 90}\n"
        "tags: [team]\nruns_at_once: 2\nform: {connection: state, require_approval: true, job: of another form}\n",
        monkeypatch,
    )
    arguments = dag_arguments(rescale_form(), ["window"])
    assert arguments["tags"] == ["rescale", "flink", "window", "team"]
    assert arguments["max_active_runs"] == 2
    assert arguments["default_args"] == {
        "owner": "ada",
        "pool": "rescale",
        "queue": "big",
        "priority_weight": 3,
        "execution_timeout": timedelta(minutes=90),
    }
    params = arguments["params"]
    assert (params["connection"].value, params["require_approval"].value) == ("state", True)
    assert dag_arguments(rescale_form(), one_run_at_once=True)["max_active_runs"] == 1


def test_notifier_is_created_from_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notifier = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
    text = f"notify: {{failed: [{{notifier: {notifier}, arguments: {{to: a@example.com}}}}]}}"
    write_settings(tmp_path, text, monkeypatch)
    (callback,) = dag_arguments(rescale_form())["on_failure_callback"]
    assert type(callback).__name__ == "SmtpNotifier"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks: {pol: x}", "unknown field"),
        ("runs_at_once: many", "Expected `int"),
        ("approval: {users: ada}", "Expected `array`"),
        ("tasks: {timeout_minutes: 1.0e+18}", "tasks.timeout_minutes"),
        ("tasks: {timeout_minutes: 0}", "tasks.timeout_minutes"),
        ("approval: {remind_minutes: .inf}", "approval.remind_minutes"),
        ("approval: {required: always}", "approval.required"),
        ("approval: {required: {above_gigabytes: -1}}", "approval.required.above_gigabytes"),
        ("form: {require_approval: 7}", "form.require_approval"),
        ("form: {require_aproval: true}", "found: require_aproval"),
        ("[]", "Expected `object`, got `array`"),
        ("false", "Expected `object`, got `bool`"),
        ("notify: {failed: [{notifier: nothing.there}]}", "a notifier of the settings cannot be created"),
        ("a: [", "are not valid"),
        ("tags: [a]\nruns_at_once: 2\ntags: [b]\n", "'tags' occurs twice"),
        ("tags: [2026-13-01]\n", "are not valid"),
        ("spark: {master: 'spark:host'}", "spark://HOST:PORT"),
        ("spark: {master: yarn, connection: spark_default}", "`master` or `connection` - at `$.spark`"),
        ("spark: {}", "`master` or `connection` - at `$.spark`"),
    ],
)
def test_invalid_field_is_refused(text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_settings(tmp_path, text, monkeypatch)
    with pytest.raises(RequestError) as caught:
        dag_arguments(rescale_form())
    assert message in str(caught.value)


def test_named_file_must_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SETTINGS_VARIABLE, "/nothing/there.yaml")
    with pytest.raises(RequestError, match="are not valid"):
        dag_arguments(rescale_form())


def test_example_settings_are_valid() -> None:
    settings = read_settings(dag_folder() / "rescale_settings.example.yaml")
    assert (settings.tasks.pool, settings.approval.four_eyes, len(settings.notify.failed)) == ("rescale", True, 1)
    assert (settings.approval.remind_minutes, len(settings.notify.expiring)) == (30, 1)
    assert settings.spark == SparkSettings(connection="spark_default")
    assert settings.approval.required == PlansToApprove(above_gigabytes=500, drops=True)


@pytest.mark.parametrize("one_run", [False, True])
def test_form_shows_that_every_plan_must_be_approved(
    one_run: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "form: {require_approval: false}\napproval: {required: {always: true}}\n"
    write_settings(tmp_path, text, monkeypatch)
    assert dag_arguments(rescale_form(), one_run_at_once=one_run)["params"]["require_approval"].value is True
    assert "require_approval" not in dag_arguments(discard_form())["params"]
