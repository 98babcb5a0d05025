"""Strict validation of documents by their published schemas: a field that the schema does not name is an error."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from rescale.schemas.documents import DOCUMENTS
from rescale.schemas.schema import schema_of

_DOCUMENT_OF_COMMAND = {"validate": "certificate", "schema": "schemas"}
"""Names of documents that differ from the name of their command."""


def assert_valid(name: str, document: Any) -> None:
    """Fail unless the document fits the schema with this name, and has only fields that the schema names."""
    errors = [f"{error.json_path}: {error.message}" for error in _validator(name).iter_errors(document)]
    assert not errors, f"a document {name!r} does not fit its schema: {errors[:5]}"


def answered_by(*arguments: str) -> str:
    """Return the name of the document that a successful command prints."""
    command = arguments[0]
    if command == "inspect" and any(argument.startswith("--kafka-offsets") for argument in arguments):
        return "kafka-offsets"
    if command == "diff" and "--by-file" in arguments:
        return "file-changes"
    if command == "follow" and "--finish" in arguments:
        return "run"
    if command == "run" and "--prepare" in arguments:
        return "prepare"
    return _DOCUMENT_OF_COMMAND.get(command, command)


def assert_valid_answer(document: Any, *arguments: str) -> None:
    """Fail unless the document fits the schema of the command's document, or that of errors."""
    is_error = isinstance(document, dict) and {"error", "what", "exit_code"} <= document.keys()
    assert_valid("error" if is_error else answered_by(*arguments), document)


@cache
def _validator(name: str) -> Draft202012Validator:
    schema = schema_of(next(document for document in DOCUMENTS if document.name == name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(_closed(schema))


def _closed(schema: Any) -> Any:
    """Return a schema in which no object has fields that it does not name."""
    if isinstance(schema, list):
        return [_closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(part) for name, part in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed
