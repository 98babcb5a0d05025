"""Values of form fields that a DAG sets in its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rescale.airflow.forms.dag_arguments import form_of_platform
from rescale.airflow.forms.form import Form, field_fault
from rescale.text.errors import RequestError

_PLACE_FIELDS = ("source", "target")


def values_with_defaults(argument_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value for each field of the form: its argument, or the platform's default if the argument is None.

    Places have no defaults; `check_values` refuses a place that is None, such as an output that a task does not have.
    The values may be templates and outputs of other tasks, so they are checked later.
    """
    defaults = {name: param.value for name, param in form_of_platform().items() if name not in _PLACE_FIELDS}
    json_values = {name: tuple_as_list(value) for name, value in argument_values.items()}
    return {
        **defaults,
        **{name: value for name, value in json_values.items() if value is not None or name in _PLACE_FIELDS},
    }


def tuple_as_list(value: Any) -> Any:
    """Return a tuple as a list, which is JSON; return any other value unchanged."""
    return list(value) if isinstance(value, tuple) else value


def check_values(arguments: Mapping[str, Any], form: Form) -> None:
    """Raise `RequestError` for a value that its field in the form would not accept."""
    for name, value in arguments.items():
        if (fault := field_fault(form[name], value)) is not None:
            raise RequestError(
                f"the argument {name!r} has a wrong value",
                found=fault,
                advice="the documentation has a table of the Params (docs/reference/params.md)",
            )


def check_job_values(arguments: Mapping[str, Any]) -> None:
    """Raise `RequestError` for a value that its field in the form of a running job would not accept.

    An address with a password is left to `open_flink`, whose error says what to do.
    """
    from rescale.airflow.forms.job_form import job_form  # imports the HTTP client, which other operators do not need

    form = job_form()
    del form["flink"].schema["pattern"]
    check_values(arguments, form)
