"""Reader of a job from Flink's REST API: its details (`/jobs/:id`) or its plan (`/jobs/:id/plan`, `/jars/:id/plan`).

Both list vertices. A vertex is a chain of operators, and has the id of its first operator
(`StreamingJobGraphGenerator`); the ids of the others are missing. The name of a vertex in the details is the names of
its operators, in one line with arrows. The plan (`JsonPlanGenerator`) describes each operator: in a line of its own,
drawn as a tree (`VertexDescriptionMode.TREE`), or in one line with arrows (`CASCADING`). A description is the
operator's name unless the program sets it, as planned SQL and windows do. Neither document mentions states.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rescale.flink.operator_id import is_operator_id
from rescale.text.errors import RequestError

_BRANCHES = re.compile(r"^(?:: {2}| {3})*[:+]- ")
_ARROWS = re.compile(r" -> \(?| ?, ")
_OF_WINDOWS = re.compile(r"^Window\((\w+)")
_OF_SQL = re.compile(r"^\[(\d+)\]:(\w+)")
_OF_VERTEX = re.compile(r"^\[vertex-\d+\]")


class GraphVertex(NamedTuple):
    """A chain of operators: id and name of the first, and the names of the operators chained to it."""

    operator_id: str
    name: str
    chained: tuple[str, ...]


def read_job_graph(data: bytes, path: str) -> tuple[GraphVertex, ...]:
    """Return the vertices of a job; `RequestError` if `data` is neither a job's details nor its plan.

    `path` names the document in errors.
    """
    try:
        document = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _not_a_plan(path, str(error)) from None
    document = document if isinstance(document, dict) else {}
    plan = document.get("plan", document)
    for nodes, names in (
        (document.get("vertices"), _operators_in_name),
        (isinstance(plan, dict) and plan.get("nodes"), _operators_in_description),
    ):
        if isinstance(nodes, list) and nodes:
            return tuple(_vertex(node, names, path) for node in nodes)
    raise _not_a_plan(path, "no list of nodes")


def _vertex(node: Any, names: Callable[[dict[str, Any]], list[str]], path: str) -> GraphVertex:
    operator_id = node.get("id") if isinstance(node, dict) else None
    if not isinstance(operator_id, str) or not is_operator_id(operator_id):
        raise _not_a_plan(path, f"a node with the id {operator_id!r}")
    first, *chained = names(node) or [""]
    return GraphVertex(operator_id.lower(), first, tuple(chained))


def _operators_in_name(vertex: dict[str, Any]) -> list[str]:
    return _along_arrows(_OF_VERTEX.sub("", str(vertex.get("name") or "")))


def _operators_in_description(node: dict[str, Any]) -> list[str]:
    """Return the names of the operators in a vertex, read from its description."""
    description = str(node.get("description") or "")
    lines = [html.unescape(line) for line in description.split("<br/>") if line.strip()]
    if "<br/>" not in description and lines:
        lines = _along_arrows(lines[0])
    return [_name_in(_OF_VERTEX.sub("", _BRANCHES.sub("", line)).strip()) for line in lines]


def _along_arrows(line: str) -> list[str]:
    if " -> " not in line:
        return [line]
    return [part.rstrip(" )") if part.count(")") > part.count("(") else part for part in _ARROWS.split(line)]


def _name_in(description: str) -> str:
    """Return the name that Flink gives an operator with this description."""
    if of_sql := _OF_SQL.match(description):
        return f"{of_sql[2]}[{of_sql[1]}]"
    of_windows = _OF_WINDOWS.match(description)
    return of_windows[1] if of_windows else description


def _not_a_plan(path: str, content: str) -> RequestError:
    return RequestError(
        "not the plan of a job",
        path=path,
        expected="JSON with nodes whose ids have 32 hex digits",
        found=content,
        advice="save the answer of Flink's REST API: curl http://jobmanager:8081/jobs/JOB-ID, or /jars/JAR-ID/plan for "
        "a program that does not run yet; the output of `flink info` has no operator ids",
    )
