"""The shape of a running job against the one that is asked for, as far as Flink tells before there is a savepoint.

Flink's REST API shows vertices: chained operators, under the id of the first of them (`StreamingJobGraphGenerator`). Of
an operator further on in a chain nothing can be told.
"""

from __future__ import annotations

from collections.abc import Mapping

from rescale.errors import RequestError, UnsupportedError
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.orchestration.flink.running_job import Job, Vertex
from rescale.planning.asked.operator_shapes import Shape
from rescale.planning.asked.request import Request


def has_shape(job: Job, request: Request) -> bool:
    """Whether a shape is asked for and nothing else, and every task of the job has it already."""
    if request.renames or request.drops or request.state_drops or request.kafka:
        return False
    asked = [*request.parallelism, *request.max_parallelism]
    there = {vertex.operator_id for vertex in job.vertices}
    told = {_operator_id(selector, request) for selector in asked if selector} <= there
    return bool(asked) and told and all(_wanted(vertex, request) == _shape(vertex) for vertex in job.vertices)


def check_shape(job: Job, request: Request) -> None:
    """Refuses what the plan would: a parallelism above the maximum, or another one where subtasks have finished."""
    for vertex in job.vertices:
        wanted = _wanted(vertex, request)
        if vertex.partially_finished and wanted.parallelism != vertex.parallelism:
            raise UnsupportedError(
                "some subtasks of this operator have finished, which means nothing in another shape",
                operator=vertex.name,
                expected=f"parallelism {vertex.parallelism}",
                found=wanted.parallelism,
                advice="name the other operators only",
            )
        if wanted.parallelism > wanted.max_parallelism:
            raise RequestError(
                "the parallelism is above the job's max parallelism",
                operator=vertex.name,
                expected=f"at most {wanted.max_parallelism}",
                found=wanted.parallelism,
                advice="ask for less, or for another max parallelism too",
            )


def changes_max_parallelism(job: Job, request: Request) -> bool:
    """Whether another max parallelism is asked for, or one for an operator of which nothing can be told."""
    there = {vertex.operator_id for vertex in job.vertices}
    told = {_operator_id(selector, request) for selector in request.max_parallelism if selector} <= there
    return not told or any(_wanted(one, request).max_parallelism != one.max_parallelism for one in job.vertices)


def _shape(vertex: Vertex) -> Shape:
    return Shape(vertex.parallelism, vertex.max_parallelism)


def _wanted(vertex: Vertex, request: Request) -> Shape:
    """As `new_shapes` has it: what always runs with one subtask stays."""
    if vertex.max_parallelism == 1:
        return _shape(vertex)
    parallelism, maximum = (_asked(words, vertex, request) for words in (request.parallelism, request.max_parallelism))
    return Shape(parallelism or vertex.parallelism, maximum or vertex.max_parallelism)


def _asked(numbers: Mapping[str, int], vertex: Vertex, request: Request) -> int | None:
    of_it = [n for selector, n in numbers.items() if selector and _operator_id(selector, request) == vertex.operator_id]
    return of_it[0] if of_it else numbers.get("")


def _operator_id(selector: str, request: Request) -> str:
    """Of a name that the request gives, an operator id, or a uid."""
    for operator_id, name in request.uids:
        if name == selector:
            return operator_id
    return selector.lower() if is_operator_id(selector) else operator_id_of_uid(selector)
