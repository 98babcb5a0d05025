"""Reader of a job graph of Flink's REST API: job details (`/jobs/:id`) or a plan (`/jobs/:id/plan`, `/jars/:id/plan`).

Both documents list vertices. A vertex is a chain of operators, and has the id of the first operator in the chain
(`StreamingJobGraphGenerator`); the ids of the other operators are missing. In job details, the name of a vertex joins
the names of its operators by arrows. In a plan (`JsonPlanGenerator`), the description of a vertex has the descriptions
of its operators: each in a line of its own, drawn as a tree (`VertexDescriptionMode.TREE`), or joined by arrows
(`CASCADING`). The description of an operator is its name unless the program sets another one, as SQL and windows do.
Neither job details nor a plan mention states.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from rescale.flink.operator_id import is_operator_id
from rescale.text.errors import DECODE_ERRORS, RequestError

_BRANCH_PREFIX = re.compile(r"^(?:: {2}| {3})*[:+]- ")
_ARROW = re.compile(r" -> \(?| ?, ")
_WINDOW_DESCRIPTION = re.compile(r"^Window\((\w+)")
_SQL_DESCRIPTION = re.compile(r"^\[(\d+)\]:(\w+)")
_VERTEX_PREFIX = re.compile(r"^\[vertex-\d+\]")


class GraphVertex(NamedTuple):
    """A chain of operators: id and name of the first operator, and the names of the operators chained to it."""

    operator_id: str
    name: str
    chained_names: tuple[str, ...]


def read_job_graph(data: bytes, path: str) -> tuple[GraphVertex, ...]:
    """Return the vertices of a job; `data` is the job's details or plan, in the JSON of Flink's REST API.

    Raises `RequestError` if `data` is neither details nor a plan. `path` names the document in errors.
    """
    try:
        document = msgspec.json.decode(data)
    except DECODE_ERRORS as error:
        raise _no_job_graph_error(path, str(error)) from None
    document = document if isinstance(document, dict) else {}
    plan = document.get("plan", document)
    for nodes, names_in in (
        (document.get("vertices"), _names_in_vertex_name),
        (isinstance(plan, dict) and plan.get("nodes"), _names_in_description),
    ):
        if isinstance(nodes, list) and nodes:
            return tuple(_vertex(node, names_in, path) for node in nodes)
    raise _no_job_graph_error(path, "no list of nodes")


def _vertex(node: Any, names_in: Callable[[dict[str, Any]], list[str]], path: str) -> GraphVertex:
    operator_id = node.get("id") if isinstance(node, dict) else None
    if not isinstance(operator_id, str) or not is_operator_id(operator_id):
        raise _no_job_graph_error(path, f"a node with the id {operator_id!r}")
    first_name, *chained_names = names_in(node) or [""]
    return GraphVertex(operator_id.lower(), first_name, tuple(chained_names))


def _names_in_vertex_name(vertex: dict[str, Any]) -> list[str]:
    return _split_at_arrows(_VERTEX_PREFIX.sub("", str(vertex.get("name") or "")))


def _names_in_description(node: dict[str, Any]) -> list[str]:
    description = str(node.get("description") or "")
    lines = [html.unescape(line) for line in description.split("<br/>") if line.strip()]
    if "<br/>" not in description and lines:
        lines = _split_at_arrows(lines[0])
    return [_name_of_operator(_VERTEX_PREFIX.sub("", _BRANCH_PREFIX.sub("", line)).strip()) for line in lines]


def _split_at_arrows(line: str) -> list[str]:
    if " -> " not in line:
        return [line]
    return [part.rstrip(" )") if part.count(")") > part.count("(") else part for part in _ARROW.split(line)]


def _name_of_operator(description: str) -> str:
    if sql_match := _SQL_DESCRIPTION.match(description):
        return f"{sql_match[2]}[{sql_match[1]}]"
    window_match = _WINDOW_DESCRIPTION.match(description)
    return window_match[1] if window_match else description


def _no_job_graph_error(path: str, content: str) -> RequestError:
    return RequestError(
        "neither the details nor the plan of a job",
        path=path,
        expected="JSON with nodes whose ids have 32 hex digits",
        found=content,
        advice="save the answer of Flink's REST API: curl http://jobmanager:8081/jobs/JOB-ID, or /jars/JAR-ID/plan for "
        "a program that does not run yet; the output of `flink info` has no operator ids",
    )
