"""Sentences for both surfaces (command line and form) name no option, command or variable of a shell.

Instead, an `Advice` has mentions, which each surface words in its own way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rescale
from rescale.options.rows import OPTIONS
from support.form_surface import is_of_a_shell

PACKAGE = Path(rescale.__file__).parent

COMMAND_LINE_FILES = (
    *(
        "cli",
        "demo",
        "options/rows.py",
        "options/follow_rows.py",
        "schemas/documents.py",
        "doctor/flink_cluster.py",
        "planning/matching.py",
    ),
    *(f"report/pages/{page}.py" for page in ("file_changes", "matched", "other_release", "outcome", "preparation")),
    "storage/s3/s3_advice.py",
)
"""Files that only the command line uses, the rows of options, and the command line's wording of settings."""

WORDED_FUNCTIONS = ("mention", "command", "setting", "s3_advice", "in_option", "Mention")
"""Functions for whose arguments each surface has its own wording."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield place and text of each string that all surfaces show as it is; docstrings are left out."""
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if any(place.is_relative_to(other) for other in COMMAND_LINE_FILES):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = [*ast.walk(tree)]
        skipped_nodes = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORDED_FUNCTIONS:
                skipped_nodes.update(ast.walk(node))
        yield from (
            (f"{place}:{node.lineno}", node.value)
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped_nodes
        )


def test_sentences_for_forms_and_shells_name_no_options_of_a_shell() -> None:
    assert [(place, text) for place, text in texts() if " " in text and is_of_a_shell(text)] == []


def test_help_of_form_fields_names_no_options_of_a_shell() -> None:
    help_texts = [row.field.help for row in OPTIONS]
    assert [text for text in help_texts if is_of_a_shell(text)] == []
