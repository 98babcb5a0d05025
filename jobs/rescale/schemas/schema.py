"""JSON Schema (draft 2020-12) of a published document, made from its types.

The schema describes what this version of Rescale writes. A schema allows fields that it does not name, because a later
version of Rescale may add fields.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import msgspec

from rescale.schemas.documents import PublishedDocument

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(document: PublishedDocument) -> dict[str, Any]:
    """Return the JSON Schema of a document as JSON values, with its `$id` and its `version`."""
    schemas, definitions = msgspec.json.schema_components(document.types, ref_template="#/$defs/{name}")
    return {
        "$schema": DIALECT,
        "$id": document.id,
        "version": document.version,
        "title": document.name,
        "description": f"{document.where}: {_purpose(document)}",
        **(schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}),
        "$defs": {name: _unwrapped(definition) for name, definition in sorted(definitions.items())},
    }


def _purpose(document: PublishedDocument) -> str:
    """Return what a document is for: the first paragraph of the docstring of its first type."""
    text = inspect.getdoc(document.types[0]) if isinstance(document.types[0], type) else None
    return _one_line((text or "a list of rows").partition("\n\n")[0])


def _unwrapped(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a definition of a schema, with the lines of each paragraph in its description joined."""
    if "description" not in definition:
        return definition
    paragraphs = definition["description"].split("\n\n")
    return {**definition, "description": "\n\n".join(map(_one_line, paragraphs))}


def _one_line(text: str) -> str:
    """Return a paragraph of a docstring on one line, with `null` in place of `None`."""
    return re.sub(r"\bNone\b", "null", re.sub(r"\s+", " ", text).strip())
