"""The JSON documents of the command line, from their JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from rescale.schemas.documents import DOCUMENTS, PublishedDocument
from rescale.schemas.schema import schema_of
from tables import table

Schema = Mapping[str, Any]


def documents_markdown() -> str:
    """Return a section for each document: what writes it, its schema, and its fields."""
    listed = table(
        ["document", "version", "where it comes from"],
        ([f"[`{document.name}`](#{document.name})", str(document.version), document.where] for document in DOCUMENTS),
    )
    return "\n\n".join([listed, *(_section(document) for document in DOCUMENTS)])


def schema_text(document: PublishedDocument) -> str:
    """Return the JSON Schema of a document, as `rescale schema` prints it."""
    return json.dumps(schema_of(document), indent=2, ensure_ascii=False)


def _section(document: PublishedDocument) -> str:
    schema = schema_of(document)
    parts = [
        f"## `{document.name}` {{#{document.name}}}",
        f"{schema['description']}",
        f"[JSON Schema](schemas/{document.name}.json), version {document.version}",
    ]
    for struct in _structs(schema):
        if len(parts) > 3 or len(_structs(schema)) > 1:
            parts.append(f"**{struct['title']}**: {struct.get('description', '')}")
        fields = struct.get("properties", {}).items()
        required = set(struct.get("required", ()))
        rows = ([f"`{name}`", _kind(field), "" if name in required else "may be absent"] for name, field in fields)
        parts.append(table(["field", "type", ""], rows))
    return "\n\n".join(part for part in parts if part)


def _structs(schema: Schema) -> list[Schema]:
    """Return the objects that a document may be."""
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


def _kind(field: Schema) -> str:
    """Return the type of a field in words."""
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "anyOf" in field:
        return " or ".join(map(_kind, field["anyOf"]))
    if "enum" in field:
        return ", ".join(f"`{json.dumps(value)}`" for value in field["enum"])
    match field.get("type"):
        case "array" if isinstance(field.get("items"), Mapping):
            return f"list of {_kind(field['items'])}"
        case "array":
            return "list"
        case "object" if isinstance(field.get("additionalProperties"), Mapping):
            return f"mapping to {_kind(field['additionalProperties'])}"
        case str(name):
            return name
    return "any value"
