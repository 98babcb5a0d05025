"""`rescale schema`: print the JSON Schema of a document."""

from __future__ import annotations

import argparse

from tabulate import tabulate

from rescale.cli.output import Output
from rescale.schemas.documents import DOCUMENTS, schema_list
from rescale.schemas.schema import schema_of

SUMMARY = "print the JSON Schema of a document"
DESCRIPTION = (
    "Lists the documents that commands print with --output json and that a run puts beside its target, or prints the "
    "JSON Schema (draft 2020-12) of one of them. Programs can check a document with it, or make types from it. A "
    "schema has a version, which is part of its $id and rises with every change of the schema. A schema describes the "
    "documents of this version of Rescale: use it only for these. It allows fields that it does not name. "
    "Any command may answer with an error instead of its document."
    "\n\n"
    "Check a plan with Python's check-jsonschema:"
    "\n\n"
    "  rescale schema plan > plan.schema.json"
    "\n\n"
    "  check-jsonschema --schemafile plan.schema.json plan.json"
)
EXAMPLE = "rescale schema certificate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "document",
        metavar="DOCUMENT",
        nargs="?",
        choices=[document.name for document in DOCUMENTS],
        help="name of a document, without which all are listed: " + ", ".join(document.name for document in DOCUMENTS),
    )


def execute(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.document is None:
        schemas = schema_list()
        rows = [(entry.document, entry.version, entry.where) for entry in schemas.schemas]
        output.answer(schemas, lambda: tabulate(rows, headers=("document", "version", "where it comes from")))
        return
    chosen_document = next(document for document in DOCUMENTS if document.name == arguments.document)
    output.answer_json(schema_of(chosen_document))
