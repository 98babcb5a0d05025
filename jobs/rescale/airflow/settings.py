"""Settings of the platform for all DAGs of this package.

They are in the file `rescale_settings.yaml` beside the DAGs, or in the file that the environment variable
`RESCALE_SETTINGS` names. Each DAG reads them when Airflow parses it. If the file is not valid, Airflow can import none
of the DAGs, so that nobody relies on a setting that has no effect.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any

import msgspec

from rescale.airflow.yaml_file import read_yaml
from rescale.options.spark_master import MASTER_FORMS, is_master_url
from rescale.text.errors import RequestError

SETTINGS_VARIABLE = "RESCALE_SETTINGS"

_FILE_NAME = "rescale_settings.yaml"

Minutes = Annotated[float, msgspec.Meta(gt=0, lt=366 * 24 * 60)]
"""Number of minutes, less than 366 days: much longer durations exceed the range of Python's dates."""


class Notifier(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An Airflow notifier: the import path of its class, and its arguments."""

    notifier: str
    arguments: dict[str, Any] = {}

    def create(self) -> Any:
        """Return the notifier. Raises `RequestError` if it cannot be imported or constructed."""
        try:
            return resolve_name(self.notifier)(**self.arguments)
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            raise RequestError(
                "a notifier of the settings cannot be created",
                expected="the import path of a class, and its arguments",
                found=f"{self.notifier}: {error}",
            ) from None


class NotifiersByEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Notifiers by event.

    `waiting`: a plan waits for an answer. `expiring`: it will soon count as rejected. `failed`: a run failed. `back`: a
    job was started again with its old shape.
    """

    waiting: tuple[Notifier, ...] = ()
    expiring: tuple[Notifier, ...] = ()
    failed: tuple[Notifier, ...] = ()
    back: tuple[Notifier, ...] = ()


class PlansToApprove(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plans that need an approval, whatever the form says.

    `always`: all plans. `above_gigabytes`: plans that write more than this number of gigabytes (10⁹ bytes); what
    earlier rounds wrote for the same result counts, too. `drops`: plans that drop operators or states.
    """

    always: bool = False
    above_gigabytes: Annotated[float, msgspec.Meta(ge=0)] | None = None
    drops: bool = False


class ApprovalRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for the approval of plans.

    `users` are the ids of the users that may answer; empty for everybody with Airflow's permission. With `four_eyes`,
    the user that triggered the run may not answer. The notifiers of `expiring` are called `remind_minutes` before the
    deadline.
    """

    users: tuple[str, ...] = ()
    four_eyes: bool = False
    remind_minutes: Minutes = 15
    required: PlansToApprove = PlansToApprove()


class TaskSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of every task; None keeps Airflow's default."""

    owner: str | None = None
    pool: str | None = None
    queue: str | None = None
    priority_weight: int | None = None
    timeout_minutes: Minutes | None = None


class SparkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Spark for steps that are processes of a worker: the master, or the Airflow connection that names it."""

    master: str | None = None
    connection: str | None = None

    def __post_init__(self) -> None:
        if (self.master is None) == (self.connection is None):
            raise ValueError("expected `master` or `connection`")
        if self.master is not None and not is_master_url(self.master):
            raise ValueError(f"{self.master!r} is not a Spark master: expected {MASTER_FORMS}")


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings. `form` holds defaults by field name; `runs_at_once` applies to each DAG that is not a window."""

    tasks: TaskSettings = TaskSettings()
    tags: tuple[str, ...] = ()
    runs_at_once: int | None = None
    form: dict[str, Any] = {}
    approval: ApprovalRules = ApprovalRules()
    notify: NotifiersByEvent = NotifiersByEvent()
    spark: SparkSettings | None = None
    """Spark for steps that are processes; None if such a step uses the cores of its worker."""


def settings_path() -> Path | None:
    """Return the path of the settings file, or None if there is none."""
    if given_path := os.environ.get(SETTINGS_VARIABLE):
        return Path(given_path)
    from airflow.providers.common.compat.sdk import conf

    default_path = Path(conf.get("core", "dags_folder")) / _FILE_NAME
    return default_path if default_path.exists() else None


@cache
def settings() -> Settings:
    """Return the settings of the platform; the file is read once per process."""
    path = settings_path()
    return Settings() if path is None else read_settings(path)


def read_settings(path: Path) -> Settings:
    """Read a file of settings. Raises `RequestError` with the name of a wrong field."""
    problem = "the settings of the platform are not valid"
    document = read_yaml(path, problem)
    try:
        return msgspec.convert({} if document is None else document, Settings)
    except msgspec.ValidationError as error:
        raise RequestError(problem, path=str(path), found=error) from None
