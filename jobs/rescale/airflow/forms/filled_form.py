"""Values of a filled form: their normalisation, the request that results, and the checks of the first task.

A field's schema checks its value alone. The checks here also depend on other values, the platform's settings or the
worker's environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rescale.airflow.forms.form import field_title
from rescale.airflow.settings import settings
from rescale.options.option import Option, OptionKind
from rescale.options.rows import OPTIONS, option
from rescale.plan.proof import Proof
from rescale.planning.request.result_files import Files, Format
from rescale.text.errors import RequestError, in_option

if TYPE_CHECKING:
    from rescale.planning.request.request import Request
    from rescale.planning.request.surgery_request import Values

PARAMS_ADDED_BY_AIRFLOW = frozenset({"openlineage"})
"""Keys that Airflow itself adds to the `conf` of a run.

With OpenLineage's provider enabled, `TriggerDagRunOperator` adds `openlineage`, which names parent and root task
(`safe_inject_openlineage_properties_into_dagrun_conf`).
"""

ALLOWED_MODULES_VARIABLE = "RESCALE_KEY_HASH_MODULES"
"""Environment variable with the names of the Python modules whose functions may hash keys, separated by commas.

Without it, no module is allowed.
"""


def lines_of(params: Mapping[str, Any], field_name: str) -> list[str]:
    """Return the lines of a field that are not empty, without surrounding spaces."""
    return [line.strip() for line in params[field_name] or [] if line.strip()]


def trimmed_values(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a filled form without surrounding spaces, and None for empty text.

    Raises `RequestError` for two names that differ only in spaces: one of their values would be lost.
    """
    trimmed_params = {name: _trimmed_value(name, value) for name, value in params.items()}
    return {name: None if value == "" else value for name, value in trimmed_params.items()}


def _trimmed_value(field_name: str, value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        if len({name.strip() for name in value}) < len(value):
            raise RequestError(
                "a field of the form has the same name twice",
                option=f'"{field_title(field_name)}"',
                expected="each name once; spaces around it do not count",
                found=", ".join(map(repr, value)),
            )
        return {name.strip(): _trimmed_value(field_name, item) for name, item in value.items()}
    return [_trimmed_value(field_name, item) for item in value] if isinstance(value, list) else value


def refuse_unknown_fields(params: Mapping[str, Any], form: Mapping[str, Any]) -> None:
    """Raise `RequestError` for a value in `params` whose field is not in `form`; Airflow itself accepts it."""
    if unknown_fields := sorted(params.keys() - form.keys() - PARAMS_ADDED_BY_AIRFLOW):
        raise RequestError(
            "a value was given for a field that the form does not have",
            expected=f"only {', '.join(form)}",
            found=", ".join(unknown_fields),
        )


def check_changes(params: Mapping[str, Any]) -> None:
    """Raise `RequestError` if a form asks for no change, for two shapes at once, or for a loss without an approval."""
    refuse_unintended_copy(params)
    refuse_unapproved_drops(params)


def refuse_unintended_copy(params: Mapping[str, Any]) -> None:
    """Raise `RequestError` if the form asks for no change and no copy, or for both the same and another shape."""
    has_shape = any(params[name] for name in ("parallelism", "max_parallelism")) or bool(
        _shapes_of_operators(params["operators"])
    )
    if params["same_shape"] and has_shape:
        raise RequestError(
            "the form asks for the same shape and for another shape",
            option=f'"{field_title("same_shape")}"',
            advice=f'leave the numbers empty, or switch "{field_title("same_shape")}" off',
        )
    changing_options = [row for row in OPTIONS if row.changes_result]
    if not has_shape and not params["same_shape"] and not any(is_set(row, params) for row in changing_options):
        field_names = [row.field.name for row in changing_options]
        titles = [f'"{field_title(name)}"' for name in (*field_names[:2], "operators", *field_names[2:])]
        raise RequestError(
            "the form asks for no change",
            expected=f"{', '.join(titles[:-1])} or {titles[-1]}",
            found="none of them",
            advice=f'for an unchanged copy, switch "{field_title("same_shape")}" on',
        )


def is_set(row: Option, params: Mapping[str, Any]) -> bool:
    """Return whether a filled form gives an option another value than its default."""
    value = _option_value(row, params)
    return value != row.default if row.kind is OptionKind.CHOICE else bool(value)


def refuse_unapproved_drops(params: Mapping[str, Any]) -> None:
    """Raise `RequestError` if the run would drop state or old rows, or restart operators, without an approval.

    A form that only plans has no field for the approval, and may name drops and restarts. If the settings require an
    approval of every plan that drops state, the form need not ask for it.
    """
    names_by_change = {
        "drop operators or states": [*lines_of(params, "drops"), *lines_of(params, "state_drops")],
        "drop old rows": lines_of(params, "old_rows"),
        "restart operators": lines_of(params, "restarts"),
    }
    unapproved_changes = {change: names for change, names in names_by_change.items() if names}
    plans_to_approve = settings().approval.required
    if unapproved_changes and not (
        plans_to_approve.always or plans_to_approve.drops or params.get("require_approval", True)
    ):
        raise RequestError(
            f"the run would {' and '.join(unapproved_changes)} without an approval",
            expected=f'"{field_title("require_approval")}"',
            found=", ".join(name for names in unapproved_changes.values() for name in names),
            advice=f'switch "{field_title("require_approval")}" on',
        )


def request_of(params: Mapping[str, Any], known_places: Mapping[str, Any] | None = None) -> Request:
    """Return the request of a filled form. Raises `RequestError` for values that are wrong.

    `known_places` holds source and target if earlier tasks have determined them, instead of the form's fields.
    """
    from rescale.options.profiles import use_targets
    from rescale.planning.request.request import request_of_values, target_place

    params = trimmed_values(params)
    option_values = option_values_of(params)
    with in_option(option("key-hash").flag):
        check_key_functions(name.rpartition("=")[2] for name in option_values["key-hash"])
    places = {**params, **(known_places or {})}
    use_targets([target_place(places["target"])])
    return request_of_values(places["source"], places["target"], option_values)


def option_values_of(params: Mapping[str, Any]) -> Values:
    """Return the values of a form's options, by option name."""
    option_values = {row.name: _option_value(row, params) for row in OPTIONS if row.field.name in params}
    for operator, shape in _shapes_of_operators(params["operators"]):
        for name, number in shape.items():
            option_values[name] = [f"{operator}={number}", *option_values[name]]
    return option_values


def _option_value(row: Option, params: Mapping[str, Any]) -> Any:
    form_value = params[row.field.name]
    if row.field.is_number:
        return [] if form_value is None or not str(form_value).strip() else [str(form_value).strip()]
    if row.field.is_text:
        return (form_value or "").strip()
    match row.kind:
        case OptionKind.LINES:
            return lines_of(params, row.field.name)
        case OptionKind.FILE:
            return "\n".join(lines_of(params, row.field.name))
        case OptionKind.CHOICE:
            return form_value or row.default
        case _:
            return bool(form_value)


def _shapes_of_operators(
    shapes_field: Mapping[str, Mapping[str, int]] | list[str] | None,
) -> list[tuple[str, dict[str, str]]]:
    """Return the operators that have a shape of their own, each with its numbers by option name (`max-parallelism`)."""
    if isinstance(shapes_field, Mapping):
        return [
            (operator, {name.replace("_", "-"): str(number) for name, number in shape.items()})
            for operator, shape in shapes_field.items()
        ]
    return [_shape_of_line(line) for line in shapes_field or [] if line.strip()]


def _shape_of_line(line: str) -> tuple[str, dict[str, str]]:
    """Parse `uid=6`, `uid=6/256` or `uid=/256`; the max parallelism comes after the slash.

    Return the operator, and its numbers by option name.
    """
    operator, _, shape_text = line.rpartition("=")
    parallelism, _, max_parallelism = (part.strip() for part in shape_text.partition("/"))
    shape = {"parallelism": parallelism, "max-parallelism": max_parallelism}
    return operator.strip(), {name: number for name, number in shape.items() if number}


def proof_of(params: Mapping[str, Any]) -> Proof:
    return Proof(trimmed_values(params)["proof"] or Proof.RECORDS)


def request_sentence(request: Request) -> str:
    """Return a line for the log that says what a form asks for."""
    return f"asked for: {describe_request(request)}"


def describe_request(request: Request) -> str:
    """Describe a request in a line: shape, renames, drops, Kafka changes, format."""
    from rescale.planning.request.ages import age_text

    shape_numbers = (("parallelism", request.parallelism), ("max parallelism", request.max_parallelism))
    surgery, kafka_request = request.surgery, request.surgery.kafka
    phrases = [
        f"{number_name} {number_by_uid['']}" if "" in number_by_uid else f"{number_name} unchanged"
        for number_name, number_by_uid in shape_numbers
    ]
    phrases += [
        f"{number_name} {number} for {uid}"
        for number_name, number_by_uid in shape_numbers
        for uid, number in number_by_uid.items()
        if uid
    ]
    phrases += [f"{old} renamed to {new}" for old, new in surgery.renames.items()]
    phrases += [f"{operator} dropped" for operator in surgery.drops]
    phrases += [f"{old} becomes a KafkaSource{f' {new}' if new else ''}" for old, new in kafka_request.sources.items()]
    phrases += [f"topic {old} renamed to {new}" for old, new in kafka_request.topics.items()]
    phrases += [f"{len(kafka_request.offsets)} rows of Kafka offsets"] if kafka_request.offsets else []
    phrases += [f"state {state} dropped" for state in surgery.state_drops]
    phrases += [f"rows of {state} older than {age_text(age)} dropped" for state, age in surgery.ages.items()]
    phrases += [f"{operator} restarted" for operator in surgery.restarts]
    files_text = "; RocksDB's files are referenced, not copied" if request.files is Files.REFER else ""
    format_text = "unchanged" if request.format is Format.KEEP else request.format.value
    return f"{', '.join(phrases)}; format {format_text}{files_text}"


def check_key_functions(key_hashes: Iterable[str]) -> None:
    """Raise `RequestError` for a `module:function` of a module that is not allowed. Formulas have no module.

    A user of the form must not choose which code runs, so Airflow's administrator names the allowed modules.
    """
    allowed_modules = [
        module.strip() for module in os.environ.get(ALLOWED_MODULES_VARIABLE, "").split(",") if module.strip()
    ]
    for name in key_hashes:
        module, colon, _ = name.partition(":")
        if colon and module not in allowed_modules:
            raise RequestError(
                f"the module {module!r} is not allowed for key hashes",
                expected=f"one of {', '.join(allowed_modules)}"
                if allowed_modules
                else "a formula; no module is allowed",
                found=name,
                advice="Airflow's administrator can allow it, by the variable "
                f"{ALLOWED_MODULES_VARIABLE} of the workers",
            )
