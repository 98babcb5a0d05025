"""A job as Flink's REST API tells of it: in detail (`/jobs/:id`), or its plan (`/jobs/:id/plan`, `/jars/:id/plan`).

It tells of vertices: operators that are chained, under the id of the first of them (`StreamingJobGraphGenerator`). The
others have no id there. The details have vertices by their names: those of the operators, in one line with arrows. The
plan (`JsonPlanGenerator`) has descriptions: a line each, behind the branches of a tree (`VertexDescriptionMode.TREE`),
or with arrows (`CASCADING`). A description is the name unless somebody has given it, as planned SQL and windows do.
Nothing tells of states.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rescale.errors import RequestError
from rescale.flink.operator_id import is_operator_id

_BRANCHES = re.compile(r"^(?:: {2}| {3})*[:+]- ")
_ARROWS = re.compile(r" -> \(?| ?, ")
_OF_WINDOWS = re.compile(r"^Window\((\w+)")
_OF_SQL = re.compile(r"^\[(\d+)\]:(\w+)")
_OF_VERTEX = re.compile(r"^\[vertex-\d+\]")


class GraphVertex(NamedTuple):
    """The id of a chain's first operator, its name, and those of the operators that are chained to it."""

    operator_id: str
    name: str
    chained: tuple[str, ...]


def read_job_graph(data: bytes, path: str) -> tuple[GraphVertex, ...]:
    """The vertices of a job; `RequestError` if `data` is neither a job's details nor its plan."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _not_a_plan(path, str(error)) from None
    document = document if isinstance(document, dict) else {}
    plan = document.get("plan", document)
    for nodes, names in (
        (document.get("vertices"), _of_name),
        (isinstance(plan, dict) and plan.get("nodes"), _described),
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


def _of_name(vertex: dict[str, Any]) -> list[str]:
    return _along_arrows(_OF_VERTEX.sub("", str(vertex.get("name") or "")))


def _described(node: dict[str, Any]) -> list[str]:
    """What the first operator, and those that are chained to it, are called by their descriptions."""
    description = str(node.get("description") or "")
    lines = [html.unescape(line) for line in description.split("<br/>") if line.strip()]
    if "<br/>" not in description and lines:
        lines = _along_arrows(lines[0])
    return [_called(_OF_VERTEX.sub("", _BRANCHES.sub("", line)).strip()) for line in lines]


def _along_arrows(line: str) -> list[str]:
    if " -> " not in line:
        return [line]
    return [part.rstrip(" )") if part.count(")") > part.count("(") else part for part in _ARROWS.split(line)]


def _called(description: str) -> str:
    """The name that Flink gives the operator which it describes so."""
    if of_sql := _OF_SQL.match(description):
        return f"{of_sql[2]}[{of_sql[1]}]"
    of_windows = _OF_WINDOWS.match(description)
    return of_windows[1] if of_windows else description


def _not_a_plan(path: str, found: str) -> RequestError:
    return RequestError(
        "not the plan of a job",
        path=path,
        expected="JSON with nodes whose ids have 32 hex digits",
        found=found,
        advice="save what Flink's REST API answers: curl http://jobmanager:8081/jobs/JOB-ID, or of a program that "
        "does not run yet /jars/JAR-ID/plan; what `flink info` prints holds no operator ids",
    )
