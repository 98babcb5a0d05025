"""The shape of a running job against the one that is asked for, as far as Flink tells before there is a savepoint.

Flink's REST API shows vertices: chained operators, under the id of the first of them (`StreamingJobGraphGenerator`). Of
an operator further on in a chain nothing can be told but that it shares the tasks of its chain. Where some of these
have finished, a number for all operators is one for it, too, unless an operator is named that is no vertex: it may be
this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rescale.errors import RequestError, UnsupportedError
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.orchestration.flink.rest import SavepointFormat
from rescale.orchestration.flink.running_job import Job, Vertex
from rescale.planning.asked.operator_shapes import Shape
from rescale.planning.asked.request import Format, Request
from rescale.planning.values.proof import Proof, refuse_files_in_vain
from rescale.storage.locations import is_s3

_CHAINED = " -> "
"""Stands between the names of chained operators."""


def has_shape(job: Job, request: Request) -> bool:
    """Whether a shape is asked for and nothing else, and every task of the job has it already."""
    there = {vertex.operator_id for vertex in job.vertices}
    asked = [*request.parallelism, *request.max_parallelism]
    told = {_operator_id(selector, request) for selector in asked if selector} <= there
    has = told and all(_wanted(vertex, request) == _shape(vertex) for vertex in job.vertices)
    return has and asks_for_a_shape_alone(request)


def asks_for_a_shape_alone(request: Request) -> bool:
    """Whether a shape is all that would be otherwise; a format is only how it is written, and no reason to stop a job.

    A request without any shape is for a copy.
    """
    return bool(request.parallelism or request.max_parallelism) and not request.surgery


def check_shape(job: Job, request: Request) -> None:
    """Refuses what the plan would: a parallelism above the maximum, or another one where subtasks have finished."""
    for vertex in job.vertices:
        wanted = _wanted(vertex, request)
        chain = (wanted.parallelism, *_further_on(vertex, job, request))
        other = next((parallelism for parallelism in chain if parallelism != vertex.parallelism), None)
        if vertex.partially_finished and other is not None:
            raise UnsupportedError(
                "some subtasks of this operator have finished, which means nothing in another shape",
                operator=vertex.name,
                expected=f"parallelism {vertex.parallelism}",
                found=other,
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


def check_proof(job: Job, request: Request, proof: Proof, savepoint_format: SavepointFormat) -> None:
    """`RequestError` if a proof by files is asked for, and whatever the savepoint holds, `how_proven` would refuse it.

    Files of RocksDB are taken as they are from a native savepoint. Key groups are, too, which a store must have
    checksums of: both sides lie in S3, and the format stays what the savepoint's is.
    """
    if proof is Proof.RECORDS:
        return
    if savepoint_format is SavepointFormat.NATIVE:
        taken = request.format is not Format.CANONICAL
    else:
        taken = request.format is not Format.ROCKSDB and is_s3(request.source) and is_s3(request.target)
    refuse_files_in_vain(possible=taken and _keeps_a_max_parallelism(job, request))


def changes_max_parallelism(job: Job, request: Request) -> bool:
    """Whether another max parallelism is asked for, or one for an operator of which nothing can be told."""
    return not _names_vertices_alone(job, request) or not all(_keeps_maximum(one, request) for one in job.vertices)


def _keeps_a_max_parallelism(job: Job, request: Request) -> bool:
    """Whether any operator's stays, or nothing can be told of one."""
    return not _names_vertices_alone(job, request) or any(_keeps_maximum(one, request) for one in job.vertices)


def _names_vertices_alone(job: Job, request: Request) -> bool:
    """Whether all that get a max parallelism of their own are vertices; another may be further on in any chain."""
    there = {vertex.operator_id for vertex in job.vertices}
    return {_operator_id(selector, request) for selector in request.max_parallelism if selector} <= there


def _keeps_maximum(vertex: Vertex, request: Request) -> bool:
    return _wanted(vertex, request).max_parallelism == vertex.max_parallelism


def _shape(vertex: Vertex) -> Shape:
    return Shape(vertex.parallelism, vertex.max_parallelism)


def _wanted(vertex: Vertex, request: Request) -> Shape:
    """As `new_shapes` has it: what always runs with one subtask stays."""
    if vertex.max_parallelism == 1:
        return _shape(vertex)
    parallelism, maximum = (_asked(words, vertex, request) for words in (request.parallelism, request.max_parallelism))
    return Shape(parallelism or vertex.parallelism, maximum or vertex.max_parallelism)


def _further_on(vertex: Vertex, job: Job, request: Request) -> Iterator[int]:
    """The parallelism of operators behind the first one of a chain, as far as it can be told."""
    named = {_operator_id(selector, request) for selector in request.parallelism if selector}
    if _CHAINED in vertex.name and "" in request.parallelism and named <= {one.operator_id for one in job.vertices}:
        yield request.parallelism[""]


def _asked(numbers: Mapping[str, int], vertex: Vertex, request: Request) -> int | None:
    of_it = [n for selector, n in numbers.items() if selector and _operator_id(selector, request) == vertex.operator_id]
    return of_it[0] if of_it else numbers.get("")


def _operator_id(selector: str, request: Request) -> str:
    """Of a name that the request gives, an operator id, or a uid."""
    for operator_id, name in request.uids:
        if name == selector:
            return operator_id
    return selector.lower() if is_operator_id(selector) else operator_id_of_uid(selector)
