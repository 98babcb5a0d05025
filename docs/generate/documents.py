"""The JSON documents of the command line, from their JSON Schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from rescale.schemas.documents import DOCUMENTS, PublishedDocument
from rescale.schemas.schema import schema_of
from tables import table

Schema = Mapping[str, Any]


def documents_markdown() -> str:
    """Return a section for each document (what writes it, its schema, its fields), and one for each type in them."""
    overview = table(
        ["document", "version", "where it comes from"],
        ([f"[`{each.name}`](#{each.name})", str(each.version), escape(each.where)] for each in DOCUMENTS),
    )
    types = {name: each for document in DOCUMENTS for name, each in schema_of(document)["$defs"].items()}
    type_sections = [_type_section(name, each) for name, each in sorted(types.items())]
    return "\n\n".join([overview, *map(_section, DOCUMENTS), "## Types", *type_sections])


def schema_text(document: PublishedDocument) -> str:
    """Return the JSON Schema of a document, as `rescale schema` prints it."""
    return json.dumps(schema_of(document), indent=2, ensure_ascii=False)


def _section(document: PublishedDocument) -> str:
    schema = schema_of(document)
    origin = f"Version {document.version}, from {escape(document.where)}. [JSON Schema](schemas/{document.name}.json)"
    parts = [f"## `{document.name}` {{#{document.name}}}", origin]
    for struct in _structs(schema):
        parts += [_description(struct), _fields(struct)]
    return "\n\n".join(part for part in parts if part)


def _type_section(name: str, definition: Schema) -> str:
    """Return the section of a type: its description, and its fields or its values."""
    parts = [f"### `{name}` {{#{_anchor(name)}}}", _description(definition)]
    if "enum" in definition:
        parts.append(f"One of {_type_text(definition)}.")
    parts += [_fields(struct) for struct in _objects(definition, {}) if struct is definition]
    return "\n\n".join(part for part in parts if part)


def _description(struct: Schema) -> str:
    """Return the description of a type as Markdown, with characters of HTML escaped outside of code spans."""
    pieces = re.split(r"(`[^`]*`)", struct.get("description", ""))
    return "".join(piece if piece.startswith("`") else escape(piece) for piece in pieces)


def _fields(struct: Schema) -> str:
    required = set(struct.get("required", ()))
    fields = struct.get("properties", {}).items()
    rows = ([f"`{name}`", _type_text(field), "" if name in required else "may be absent"] for name, field in fields)
    return table(["field", "type", ""], rows)


def _anchor(name: str) -> str:
    return f"type-{name.lower()}"


def _structs(schema: Schema) -> list[Schema]:
    """Return the schemas of the objects that a document can be: one, or several alternatives."""
    alternatives = schema.get("anyOf", [schema])
    return [definition for each in alternatives for definition in _objects(each, schema["$defs"])]


def _objects(part: Schema, definitions: Schema) -> Iterator[Schema]:
    if "$ref" in part:
        yield from _objects(definitions[part["$ref"].rpartition("/")[2]], definitions)
    elif part.get("type") == "array":
        items = part.get("items")
        yield from _objects(items, definitions) if isinstance(items, Mapping) else ()
    elif "anyOf" in part:
        for each in part["anyOf"]:
            yield from _objects(each, definitions)
    elif part.get("type") == "object":
        yield part


def _type_text(field: Schema) -> str:
    """Return the type of a field in words."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[`{name}`](#{_anchor(name)})"
    if "anyOf" in field:
        return " or ".join(map(_type_text, field["anyOf"]))
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    match field.get("type"):
        case "array" if isinstance(field.get("items"), Mapping):
            return f"list of {_type_text(field['items'])}"
        case "array":
            return "list"
        case "object" if isinstance(field.get("additionalProperties"), Mapping):
            return f"mapping to {_type_text(field['additionalProperties'])}"
        case str(name):
            return name
    return "any value"
