"""What a platform team says of all our DAGs at once, in one file: `rescale_settings.yaml` beside the DAGs, or the one
that the variable `RESCALE_SETTINGS` names.

Each DAG reads it when it is parsed. A file that makes no sense is an import error of every DAG: nobody shall rely on a
setting that nobody reads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import msgspec
from airflow.sdk.exceptions import ParamValidationError

from rescale.errors import RequestError
from rescale.orchestration.form import Form, rescale_form
from rescale.orchestration.job_form import job_form
from rescale.orchestration.yaml_file import read_yaml

VARIABLE = "RESCALE_SETTINGS"

_BESIDE = "rescale_settings.yaml"


class Notifier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A notifier of Airflow's: its class, by its path, and what it is made with."""

    notifier: str
    arguments: dict[str, Any] = {}

    def made(self) -> Any:
        try:
            return resolve_name(self.notifier)(**self.arguments)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise RequestError(
                "there is no such notifier", expected="the path of a class", found=f"{self.notifier}: {error}"
            ) from None


class Notify(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who is told when: a plan is `waiting` for an answer, or about to be rejected for want of one (`expiring`), a run
    `failed`, a job went `back`."""

    waiting: tuple[Notifier, ...] = ()
    expiring: tuple[Notifier, ...] = ()
    failed: tuple[Notifier, ...] = ()
    back: tuple[Notifier, ...] = ()


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may answer: the `users` by their ids (none: everybody who may), and whether not who has triggered the run.

    So many minutes before an approval ends (`remind_minutes`) those are told who are to hear that it is `expiring`.
    """

    users: tuple[str, ...] = ()
    four_eyes: bool = False
    remind_minutes: float = 15


class TaskSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For every task; None: as Airflow has it."""

    owner: str | None = None
    pool: str | None = None
    queue: str | None = None
    priority_weight: int | None = None
    timeout_minutes: float | None = None


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`form` holds defaults of fields by their names; `runs_at_once` is for each DAG that is no window."""

    tasks: TaskSettings = TaskSettings()
    tags: tuple[str, ...] = ()
    runs_at_once: int | None = None
    form: dict[str, Any] = {}
    approval: Approval = Approval()
    notify: Notify = Notify()


def settings_path() -> Path | None:
    """Where the file lies, if there is one or one was named."""
    if named := os.environ.get(VARIABLE):
        return Path(named)
    from airflow.sdk.configuration import conf

    beside = Path(conf.get("core", "dags_folder")) / _BESIDE
    return beside if beside.exists() else None


@cache
def settings() -> Settings:
    """Those of this Airflow."""
    path = settings_path()
    return Settings() if path is None else read_settings(path)


def read_settings(path: Path) -> Settings:
    """All of a file; `RequestError` names the field that makes no sense."""
    what = "the settings of the platform make no sense"
    document = read_yaml(path, what)
    try:
        ours = msgspec.convert({} if document is None else document, Settings)
    except msgspec.ValidationError as error:
        raise RequestError(what, path=str(path), found=error) from None
    known = {**rescale_form(), **job_form()}
    if unknown := sorted(ours.form.keys() - known.keys()):
        raise RequestError(
            f"{what}: form", path=str(path), expected=f"only {', '.join(known)}", found=", ".join(unknown)
        )
    return ours


def dag_arguments(form: Form, tags: Sequence[str] = (), *, one_run: bool = False) -> dict[str, Any]:
    """What every DAG of ours is made with, `form` with the platform's defaults among it.

    `one_run`: never two runs at once, whatever the settings say; such a form has its defaults already.
    """
    ours = settings()
    arguments: dict[str, Any] = {
        "params": form if one_run else with_defaults(form, ours.form),
        "tags": ["rescale", "flink", *tags, *ours.tags],
        "default_args": _default_args(ours.tasks),
        "on_failure_callback": [one.made() for one in ours.notify.failed] or None,
    }
    runs = 1 if one_run else ours.runs_at_once
    return {**arguments, **({"max_active_runs": runs} if runs is not None else {})}


def with_defaults(form: Form, defaults: Mapping[str, Any]) -> Form:
    """The form with other defaults, for those of the fields that it has; `RequestError` for a value that is none."""
    for name, value in defaults.items():
        if name not in form:
            continue
        try:
            form[name].resolve(value)
        except ParamValidationError as error:
            raise RequestError(
                f"the settings of the platform make no sense: form.{name}", found=str(error).splitlines()[0]
            ) from None
        form[name].value = value
    return form


def _default_args(tasks: TaskSettings) -> dict[str, Any]:
    named = {name: getattr(tasks, name) for name in ("owner", "pool", "queue", "priority_weight")}
    timeout = None if tasks.timeout_minutes is None else timedelta(minutes=tasks.timeout_minutes)
    return {name: value for name, value in {**named, "execution_timeout": timeout}.items() if value is not None}
