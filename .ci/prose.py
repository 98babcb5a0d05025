#!/usr/bin/env python3
"""List docstrings and names that are hard to read; exit 1 if there are any.

A docstring says first what the thing is or does, so it does not start with a pronoun, "Of" or "So". A name says what
the value is, which `one`, `found`, `told` and `words` do not.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("benchmarks", "charts", "dags", "docs", "jobs", "tests")

HEADLESS = re.compile(r"(Of|One|So|Those|Who|Whoever|What|That)\b")
EMPTY_NAMES = {"one", "found", "told", "words"}
PUBLISHED_FIELDS = {"errors.py": {"found"}, "error_document.py": {"found"}, "differences.py": {"found"}}
"""Fields of published documents, whose names stay, by the name of the file that defines them."""


def findings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each finding in a Python file."""
    tree = ast.parse(path.read_text(), str(path))
    for node in ast.walk(tree):
        for text in docstrings(node):
            if HEADLESS.match(text.value.lstrip()):
                yield text.lineno, f"docstring starts with {text.value.split()[0]!r}"
        for line, name in bound_names(node):
            if name in EMPTY_NAMES - PUBLISHED_FIELDS.get(path.name, set()):
                yield line, f"name {name!r}"


def docstrings(node: ast.AST) -> Iterator[ast.Constant]:
    """Yield the docstrings in the body of a module, class or function: its own, and those of its attributes."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        for statement in node.body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str())):
                    yield statement.value


def bound_names(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable, argument or function that a node binds.

    The argument `found` of a function that also has an argument `what` is accepted: it is a field of an error.
    """
    match node:
        case ast.Name(ctx=ast.Store()):
            yield node.lineno, node.id
        case ast.arguments():
            arguments = [*node.posonlyargs, *node.args, *node.kwonlyargs, *filter(None, (node.vararg, node.kwarg))]
            makes_error = any(argument.arg == "what" for argument in arguments)
            for argument in arguments:
                if not (makes_error and argument.arg == "found"):
                    yield argument.lineno, argument.arg
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield node.lineno, node.name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield node.lineno, name


def main() -> int:
    """List the findings in all folders; return the exit code."""
    lines = [
        f"{path}:{line}: {text}"
        for folder in FOLDERS
        for path in sorted(Path(folder).rglob("*.py"))
        for line, text in sorted(findings(path))
    ]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
