"""Checks of the requested shape against the running job, before there is a savepoint.

Flink's REST API shows vertices: chains of operators, with the id of the first one (`StreamingJobGraphGenerator`). It
does not list the other operators of a chain, which run in the same tasks. A parallelism for all operators applies to
them, too. An operator in the request that is not a vertex may be one of these unlisted operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rescale.airflow.forms.form import field_title
from rescale.flink.operator_id import is_operator_id, operator_id_of_uid
from rescale.flink_rest.running_job import Job, Vertex
from rescale.plan.proof import Proof, refuse_impossible_proof
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.request.request import Request
from rescale.planning.request.result_files import Format
from rescale.storage.locations import is_s3
from rescale.text.errors import RequestError, UnsupportedError

_CHAIN_SEPARATOR = " -> "
"""Separator of the names of chained operators."""


def has_shape(job: Job, request: Request) -> bool:
    """Return whether the request is for a shape only, and every task of the job has that shape already."""
    selectors = (*request.parallelism, *request.max_parallelism)
    has_requested_shape = _are_vertices(selectors, job, request) and all(
        _requested_shape(vertex, request) == Shape(vertex.parallelism, vertex.max_parallelism)
        for vertex in job.vertices
    )
    return has_requested_shape and changes_shape_only(request)


def changes_shape_only(request: Request) -> bool:
    """Return whether the request names a shape, and no other change of the state.

    Another format does not count as a change: it is no reason to stop a job. A request without a shape is for a copy.
    """
    return bool(request.parallelism or request.max_parallelism) and not request.surgery


def check_shape(job: Job, request: Request) -> None:
    """Raise the errors that the plan would raise for the requested shape.

    Raises `RequestError` for a parallelism above the max parallelism, and `UnsupportedError` for another parallelism if
    some subtasks have finished and are not restarted.
    """
    restarted_ids = {_operator_id(selector, request) for selector in request.surgery.restarts}
    for vertex in job.vertices:
        wanted_shape = _requested_shape(vertex, request)
        parallelisms = (wanted_shape.parallelism, *_chained_parallelisms(vertex, job, request))
        other_parallelism = next(
            (parallelism for parallelism in parallelisms if parallelism != vertex.parallelism), None
        )
        if vertex.is_partially_finished and vertex.operator_id not in restarted_ids and other_parallelism is not None:
            raise UnsupportedError(
                "some subtasks of this operator have finished: it is undefined which new subtasks would count as "
                "finished",
                operator=vertex.name,
                expected=f"parallelism {vertex.parallelism}",
                found=other_parallelism,
                advice="change the shape of the other operators only, by their names; or see "
                f'"{field_title("restarts")}"',
            )
        if wanted_shape.parallelism > wanted_shape.max_parallelism:
            raise RequestError(
                "the parallelism is above the job's max parallelism",
                operator=vertex.name,
                expected=f"at most {wanted_shape.max_parallelism}",
                found=wanted_shape.parallelism,
                advice="choose a lower parallelism, or a higher max parallelism too",
            )


def check_proof(job: Job, request: Request, proof: Proof, *, may_hold_rocksdb_files: bool) -> None:
    """Raise `RequestError` if a proof by files is impossible, whatever the source contains (`proof_sentence`).

    Such a proof needs state that is copied unchanged: files of RocksDB, which native savepoints and checkpoints may
    hold; or key groups, if the format stays, and source and target are in S3, which has checksums.
    """
    if proof is Proof.RECORDS:
        return
    if may_hold_rocksdb_files:
        may_be_copied = request.format is not Format.CANONICAL
    else:
        may_be_copied = request.format is not Format.ROCKSDB and is_s3(request.source) and is_s3(request.target)
    refuse_impossible_proof(is_possible=may_be_copied and _any_keeps_max_parallelism(job, request))


def changes_max_parallelism(job: Job, request: Request) -> bool:
    """Return whether the max parallelism of any operator changes.

    Returns True if the request names an operator that is not a vertex, because its max parallelism may change.
    """
    has_other_operators = not _are_vertices(request.max_parallelism, job, request)
    return has_other_operators or not all(_keeps_max_parallelism(vertex, request) for vertex in job.vertices)


def _any_keeps_max_parallelism(job: Job, request: Request) -> bool:
    """Return whether any operator keeps its max parallelism.

    Returns True if the request names an operator that is not a vertex, because it may keep its max parallelism.
    """
    has_other_operators = not _are_vertices(request.max_parallelism, job, request)
    return has_other_operators or any(_keeps_max_parallelism(vertex, request) for vertex in job.vertices)


def _are_vertices(selectors: Iterable[str], job: Job, request: Request) -> bool:
    """Return whether the selectors in a request name vertices only, not later operators of a chain."""
    vertex_ids = {vertex.operator_id for vertex in job.vertices}
    return {_operator_id(selector, request) for selector in selectors if selector} <= vertex_ids


def _keeps_max_parallelism(vertex: Vertex, request: Request) -> bool:
    return _requested_shape(vertex, request).max_parallelism == vertex.max_parallelism


def _requested_shape(vertex: Vertex, request: Request) -> Shape:
    """Return the requested shape of a vertex, as `new_shapes` does.

    Max parallelism 1 stays unless the request names the operator.
    """
    parallelism, max_parallelism = (
        _requested_number(vertex, number_by_selector, request)
        for number_by_selector in (request.parallelism, request.max_parallelism)
    )
    return Shape(parallelism or vertex.parallelism, max_parallelism or vertex.max_parallelism)


def _chained_parallelisms(vertex: Vertex, job: Job, request: Request) -> Iterator[int]:
    """Yield the requested parallelism of the operators after the first one of the chain `vertex`, if it is known."""
    is_for_all = "" in request.parallelism and _are_vertices(request.parallelism, job, request)
    if _CHAIN_SEPARATOR in vertex.name and is_for_all:
        yield request.parallelism[""]


def _requested_number(vertex: Vertex, number_by_selector: Mapping[str, int], request: Request) -> int | None:
    """Return the parallelism, or the max parallelism, that the request has for a vertex in `number_by_selector`.

    The selector "" stands for all operators. Returns None if the request has no number for the vertex.
    """
    for selector, number in number_by_selector.items():
        if selector and _operator_id(selector, request) == vertex.operator_id:
            return number
    return None if vertex.max_parallelism == 1 else number_by_selector.get("")


def _operator_id(selector: str, request: Request) -> str:
    """Return the operator id for a selector: a name from the request's uids, an operator id, or a uid."""
    for operator_id, name in request.uids:
        if name == selector:
            return operator_id
    return selector.lower() if is_operator_id(selector) else operator_id_of_uid(selector)
