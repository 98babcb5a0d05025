"""Arguments of all DAGs of this package: the form, and arguments from the settings of the platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rescale.airflow.forms.form import Form, field_fault, rescale_form
from rescale.airflow.settings import Settings, TaskSettings, settings, settings_path
from rescale.text.errors import RequestError


def dag_arguments(form: Form, tags: Sequence[str] = (), *, one_run_at_once: bool = False) -> dict[str, Any]:
    """Return the arguments of a DAG; its `form` gets the defaults of the settings.

    With `one_run_at_once`, the settings cannot allow two runs at once, and the form keeps its own defaults.
    """
    platform_settings = settings()
    _refuse_unknown_fields(platform_settings)
    form = _with_required_approval(form if one_run_at_once else with_defaults(form, platform_settings.form))
    arguments: dict[str, Any] = {
        "params": form,
        "tags": ["rescale", "flink", *tags, *platform_settings.tags],
        "default_args": _default_args(platform_settings.tasks),
        "on_failure_callback": [notifier.create() for notifier in platform_settings.notify.failed] or None,
    }
    most_runs = 1 if one_run_at_once else platform_settings.runs_at_once
    return {**arguments, **({"max_active_runs": most_runs} if most_runs is not None else {})}


def form_of_platform() -> Form:
    """Return the form of a rescale with the defaults of the settings."""
    _refuse_unknown_fields(settings())
    return _with_required_approval(with_defaults(rescale_form(), settings().form))


def _with_required_approval(form: Form) -> Form:
    """Let the form ask for an approval by default if the settings require one for every plan."""
    if settings().approval.required.always and "require_approval" in form:
        form["require_approval"].value = True
    return form


def _refuse_unknown_fields(platform_settings: Settings) -> None:
    """Raise `RequestError` if the settings have a default for a field that no form has."""
    if not platform_settings.form:
        return
    from rescale.airflow.forms.job_form import job_form

    fields = {**rescale_form(), **job_form()}
    if unknown_fields := sorted(platform_settings.form.keys() - fields.keys()):
        raise RequestError(
            "the settings of the platform set defaults for fields that no form has: form",
            path=str(settings_path()),
            expected=f"only {', '.join(fields)}",
            found=", ".join(unknown_fields),
        )


def with_defaults(form: Form, defaults: Mapping[str, Any]) -> Form:
    """Set the defaults of a form, and return it. Raises `RequestError` for a value that the field does not accept.

    Defaults of fields that this form does not have are ignored: another form has them.
    """
    for name, value in defaults.items():
        if name not in form:
            continue
        if (fault := field_fault(form[name], value)) is not None:
            raise RequestError(f"the settings of the platform have a wrong value: form.{name}", found=fault)
        form[name].value = value
    return form


def _default_args(task_settings: TaskSettings) -> dict[str, Any]:
    arguments = {name: getattr(task_settings, name) for name in ("owner", "pool", "queue", "priority_weight")}
    timeout = None if task_settings.timeout_minutes is None else timedelta(minutes=task_settings.timeout_minutes)
    return {name: value for name, value in {**arguments, "execution_timeout": timeout}.items() if value is not None}
