"""The Params of the forms, and the settings of the platform, from the types that read them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from rescale.airflow.forms.form import Form, rescale_form
from rescale.airflow.forms.job_form import job_form
from rescale.airflow.settings import Settings
from rescale.options.option import FormSection
from tables import table


def params_markdown() -> str:
    """Return the tables of the Params: those of a rescale, and those that only a running job's form has."""
    rescale = rescale_form()
    job = {name: param for name, param in job_form().items() if name not in rescale}
    return "\n\n".join(
        [
            "## A rescale",
            *_sections(rescale),
            "## A running job",
            "The form of *Rescale a running job* has these Params in place of `source`.",
            *_sections(job),
        ]
    )


def settings_markdown() -> str:
    """Return a section for each struct of the settings: its description, and its fields with type and default."""
    return "\n\n".join(_structs(Settings))


def _sections(form: Form) -> Iterator[str]:
    """Yield a heading and a table for each section of a form."""
    by_section: dict[str, list[list[str]]] = {}
    for name, param in form.items():
        default = f"`{json.dumps(param.value)}`" if param.has_value else ""
        meaning = f"**{param.schema['title']}.** {param.schema['description_md']}"
        section = param.schema.get("section", FormSection.OPEN.value)
        by_section.setdefault(section, []).append([f"`{name}`", default, meaning])
    for section, rows in by_section.items():
        if section:
            yield f"### {section}"
        yield table(["Param", "default", "what it means"], rows)


def _structs(struct: type[msgspec.Struct]) -> Iterator[str]:
    """Yield the section of a struct, and those of the structs in its fields."""
    information = msgspec.inspect.type_info(struct)
    assert isinstance(information, msgspec.inspect.StructType)
    nested: dict[type[msgspec.Struct], None] = {}
    rows = []
    for field in information.fields:
        type_text = _type(field.type, nested)
        rows.append([f"`{field.name}`", type_text, "required" if field.required else _default(field.default)])
    text = re.sub(r"\bNone\b", "null", inspect.getdoc(struct) or "")
    yield f"### {_title(struct)} {{#{struct.__name__.lower()}}}"
    yield text
    yield table(["field", "type", "default"], rows)
    for other in nested:
        yield from _structs(other)


def _title(struct: type[msgspec.Struct]) -> str:
    title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", struct.__name__).capitalize()
    return "All settings" if struct is Settings else title


def _type(kind: msgspec.inspect.Type, nested: dict[type[msgspec.Struct], None]) -> str:
    """Return the type of a field in words; structs in it become links, and are added to `nested`."""
    match kind:
        case msgspec.inspect.StructType(cls=struct):
            nested[struct] = None
            return f"[{_title(struct).lower()}](#{struct.__name__.lower()})"
        case msgspec.inspect.VarTupleType(item_type=item):
            return f"list of {_type(item, nested)}"
        case msgspec.inspect.DictType():
            return "mapping"
        case msgspec.inspect.UnionType(types=types):
            return " or ".join(_type(each, nested) for each in types)
        case msgspec.inspect.FloatType() | msgspec.inspect.IntType():
            return "number"
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.StrType():
            return "text"
        case msgspec.inspect.NoneType():
            return "null"
        case msgspec.inspect.AnyType():
            return "any value"
    raise TypeError(kind)


def _default(value: Any) -> str:
    if value is msgspec.NODEFAULT or isinstance(value, msgspec.Struct):
        return ""
    return f"`{json.dumps(msgspec.to_builtins(value))}`"
