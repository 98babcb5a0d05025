"""What a platform says of all DAGs is taken whole, or refused with the field that makes no sense."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from rescale.demo.airflow_home import dag_folder
from rescale.errors import RequestError
from rescale.orchestration.form import rescale_form
from rescale.orchestration.settings import VARIABLE, dag_arguments, read_settings, settings


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Settings are read once in a process."""
    settings.cache_clear()
    yield
    settings.cache_clear()


def written(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "settings.yaml"
    path.write_text(text)
    monkeypatch.setenv(VARIABLE, str(path))


def test_without_a_file_everything_is_as_airflow_has_it() -> None:
    arguments = dag_arguments(rescale_form())
    assert arguments["tags"] == ["rescale", "flink"]
    assert (arguments["default_args"], arguments["on_failure_callback"]) == ({}, None)
    assert "max_active_runs" not in arguments


def test_tasks_tags_runs_and_the_form_are_the_platform_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(
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
    assert dag_arguments(rescale_form(), one_run=True)["max_active_runs"] == 1


def test_a_notifier_is_made_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notifier = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
    text = f"notify: {{failed: [{{notifier: {notifier}, arguments: {{to: a@example.com}}}}]}}"
    written(tmp_path, text, monkeypatch)
    (made,) = dag_arguments(rescale_form())["on_failure_callback"]
    assert type(made).__name__ == "SmtpNotifier"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tasks: {pol: x}", "unknown field"),
        ("runs_at_once: many", "Expected `int"),
        ("approval: {users: ada}", "Expected `array`"),
        ("form: {require_approval: 7}", "form.require_approval"),
        ("form: {require_aproval: true}", "found: require_aproval"),
        ("[]", "Expected `object`, got `array`"),
        ("false", "Expected `object`, got `bool`"),
        ("notify: {failed: [{notifier: nothing.there}]}", "there is no such notifier"),
        ("a: [", "make no sense"),
        ("tags: [a]\nruns_at_once: 2\ntags: [b]\n", "'tags' stands twice"),
        ("tags: [2026-13-01]\n", "make no sense"),
    ],
)
def test_a_field_that_makes_no_sense_is_refused(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, text, monkeypatch)
    with pytest.raises(RequestError) as caught:
        dag_arguments(rescale_form())
    assert words in str(caught.value)


def test_a_file_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "/nothing/there.yaml")
    with pytest.raises(RequestError, match="make no sense"):
        dag_arguments(rescale_form())


def test_the_example_is_sound() -> None:
    ours = read_settings(dag_folder() / "rescale_settings.example.yaml")
    assert (ours.tasks.pool, ours.approval.four_eyes, len(ours.notify.failed)) == ("rescale", True, 1)
    assert (ours.approval.remind_minutes, len(ours.notify.expiring)) == (30, 1)
