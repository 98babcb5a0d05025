"""The trigger form of a rescale: its fields, in their order.

The schema of a field checks its value, in the form and in Airflow's REST API. No field holds a secret:
secrets are in the Airflow connections that fields name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.providers.common.compat.sdk import ParamValidationError
from airflow.sdk import Param

from rescale.airflow.forms.form_advice import SHAPES_TITLE, SOURCE_CONNECTION_TITLE
from rescale.flink.key_groups import UPPER_BOUND_MAX_PARALLELISM
from rescale.options.option import FormSection, Option, OptionKind
from rescale.options.rows import OPTIONS, PLACE_PATTERN

_PLACE_HELP = "`s3://bucket/key`, or an absolute path that workers can reach"

_RANGE_SCHEMA: dict[str, Any] = {"exclusiveMinimum": 0, "exclusiveMaximum": UPPER_BOUND_MAX_PARALLELISM + 1}

# A number has a text field, because Airflow's number field turns `abc` into null and `7e2` into 72. The value may also
# be a number, for the REST API. For several types, Airflow would show a text area; `examples` make it show a single
# line (`FieldSelector`).
_NUMBER_SCHEMA: dict[str, Any] = {
    "type": ["null", "string", "integer"],
    "pattern": "^ *([1-9][0-9]{0,4})? *$",
    **_RANGE_SCHEMA,
}

_SHAPES_SCHEMA: dict[str, Any] = {
    "not": {"type": ["boolean", "number", "string"]},
    "items": {
        "type": "string",
        "pattern": "^ *$|^.+=([1-9][0-9]{0,4}(/[1-9][0-9]{0,4})?|/[1-9][0-9]{0,4}) *$",
    },
    "propertyNames": {"minLength": 1},
    "additionalProperties": {
        "type": "object",
        "properties": {name: {"type": "integer", **_RANGE_SCHEMA} for name in ("parallelism", "max_parallelism")},
        "additionalProperties": False,
        "minProperties": 1,
    },
}
"""Schema for lines of text, or for a JSON object with operators as keys. With two types Airflow would show a text area
for JSON (`FieldSelector`), so the schema names no type and excludes other types by `not`."""

_MINUTES_PER_YEAR = 366 * 24 * 60

APPROVAL_MINUTES = 120
"""Time in which a plan can be approved if neither the form nor the settings name one."""

Form = dict[str, Param]


def rescale_form() -> Form:
    """Return the Params of a rescale, in the order of the form.

    The fields that a new user needs come first, without a section: places, shape, approval, connection. The sections
    after them are folded, and no field with a default is marked as required.
    """
    form = _unfolded_fields()
    for section in list(FormSection)[1:-1]:
        form |= {**_fields_without_option(section), **_fields_of_options(section)}
    return form


def plan_only_form() -> Form:
    """Return the Params of a run that only plans: those of a rescale without proof, approval and publication."""
    form = rescale_form()
    for name in ("proof", "require_approval", "approval_minutes", "accept_unconditional_publish"):
        del form[name]
    return form


def discard_form() -> Form:
    """Return the Params of a run that removes what an unpublished run left behind."""
    form = rescale_form()
    target = form["target"]
    target.schema["description_md"] = (
        f"The target of a run that did not publish its result: {_PLACE_HELP}. A published result is never removed."
    )
    return {"target": target, "connection": form["connection"]}


def field_title(field_name: str) -> str:
    """Return the title of a field of the rescale form."""
    return str(rescale_form()[field_name].schema["title"])


def field_fault(field: Param, value: Any) -> str | None:
    """Return why a field does not accept a value; None if it does."""
    try:
        field.resolve(value)
    except ParamValidationError as error:
        return str(error).splitlines()[0]
    return None


def _unfolded_fields() -> Form:
    return {
        "source": Param(
            type="string",
            pattern=PLACE_PATTERN,
            title="Source",
            description_md=f"The directory that Flink printed when it took the savepoint: {_PLACE_HELP}. "
            "Never modified.",
        ),
        "target": Param(
            type="string",
            pattern=PLACE_PATTERN,
            title="Target",
            description_md=f"A directory that does not exist yet, outside the source: {_PLACE_HELP}.",
        ),
        **_fields_of_options(FormSection.OPEN),
        "same_shape": flag_field(
            title="Same shape: a self-contained copy",
            description_md="Copies the snapshot unchanged into a directory that can be moved. Without it, a run that "
            "would change nothing is refused.",
        ),
        "require_approval": flag_field(
            title="Ask before anything moves",
            description_md="The run waits until somebody approves the plan. If it is rejected, the run fails and its "
            "staged files are removed.",
        ),
        "approval_minutes": Param(
            APPROVAL_MINUTES,
            type=["number", "null"],
            exclusiveMinimum=0,
            exclusiveMaximum=_MINUTES_PER_YEAR,
            title="Time to approve (minutes)",
            description_md="Without an answer in this time, the plan counts as rejected. Empty: the time in the "
            f"platform's settings, or {APPROVAL_MINUTES} minutes.",
        ),
        "connection": line_field(
            title="Connection",
            description_md="The id of an Airflow connection of type aws for access to S3. Empty: the access that the "
            "worker has in its own environment. Must be empty if steps run in pods or on a Spark cluster.",
        ),
    }


def _fields_without_option(section: FormSection) -> Form:
    """Return the fields of a section that have no option on the command line."""
    match section:
        case FormSection.OPERATORS:
            return {
                "operators": Param(
                    [],
                    **_SHAPES_SCHEMA,
                    title=SHAPES_TITLE,
                    section=section.value,
                    description_md="Lines such as `uid=6`, with a uid or an operator id. `uid=6/256` changes the max "
                    "parallelism too, `uid=/256` only the max parallelism. These shapes take precedence over the "
                    "numbers for all operators.",
                )
            }
        case FormSection.KAFKA:
            return {
                "without_offsets": lines_field(
                    title="May start without their Kafka offsets",
                    section=section.value,
                    description_md="Names of operators, one per line. After stop-with-savepoint, a "
                    "`FlinkKafkaConsumer` has no offsets, or those of an earlier checkpoint. The run fails unless the "
                    "operator is named here.",
                )
            }
        case FormSection.STORAGE:
            return {
                "source_connection": line_field(
                    title=SOURCE_CONNECTION_TITLE,
                    section=section.value,
                    description_md="For a source in another S3 store than the target, or in another account or region: "
                    "the id of an Airflow connection of type aws for the source; *Connection* is then for the target "
                    "only. Empty: *Connection* is for both. Must be empty if steps run in pods or on a Spark "
                    "cluster.",
                )
            }
        case _:
            return {}


def _fields_of_options(section: FormSection) -> Form:
    return {row.field.name: field_of_option(row) for row in OPTIONS if row.field.section is section}


def field_of_option(row: Option) -> Param:
    field = row.field
    schema: dict[str, Any] = {"title": field.title, "description_md": field.help}
    if field.section is not FormSection.OPEN:
        schema["section"] = field.section.value
    if field.is_number:
        return Param(None, **_NUMBER_SCHEMA, examples=[*field.examples], **schema)
    if field.is_text:
        return Param(None, type=["string", "null"], format="multiline", **schema)
    match row.kind:
        case OptionKind.FLAG:
            return flag_field(**schema)
        case OptionKind.CHOICE:
            return choice_field({value: label for value, label in row.choices.items() if label}, **schema)
        case _:
            return lines_field(pattern=field.pattern, **schema)


def lines_field(*, pattern: str = ".", **schema: Any) -> Param:
    """Return a field of strings, one per line, that are empty or match `pattern`.

    Airflow's form sends null for a cleared field, and an empty string for each empty line.
    """
    return Param([], type=["array", "null"], items={"type": "string", "pattern": f"^$|{pattern}"}, **schema)


def flag_field(**schema: Any) -> Param:
    """Return a switch that is off. Its type allows null, so that the form does not mark it as required."""
    return Param(False, type=["boolean", "null"], **schema)


def line_field(**schema: Any) -> Param:
    """Return a field of one string, which is null if it is empty. It is not marked as required."""
    return Param(None, type=["null", "string"], **schema)


def choice_field(label_by_value: Mapping[Any, str], **schema: Any) -> Param:
    """Return a drop-down field from values and their labels; the first is the default. It is not marked as required."""
    label_by_text = {str(value): label for value, label in label_by_value.items()}
    return Param(
        next(iter(label_by_text)),
        type=["string", "null"],
        enum=[*label_by_text],
        values_display=label_by_text,
        **schema,
    )
