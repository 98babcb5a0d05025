"""What the plan of a savepoint would refuse, told by the job's latest checkpoint while the job runs.

The checkpoint may be of another kind than the savepoint, and older. So that alone is refused here which every later
snapshot of the job would have refused, whatever its kind: names of operators, shapes, hashes of keys. Where the
checkpoint leaves a doubt the log has a warning, and the plan decides. That keys which no known hash fits have all gone
until the savepoint is taken is no such doubt: then somebody names the hash, or has the run tried again.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from rescale.errors import RequestError, RescaleError, UnsupportedError
from rescale.orchestration.flink.running_job import Job
from rescale.orchestration.job.job_shape import asks_for_a_shape_alone
from rescale.orchestration.job.latest_checkpoint import Unread
from rescale.orchestration.job.sure_words import is_logged, sure_words
from rescale.orchestration.telling import tell
from rescale.planning.asked.asked_surgery import asked_surgery
from rescale.planning.asked.finished_operators import refuse_finished
from rescale.planning.asked.operator_shapes import Shape
from rescale.planning.asked.request import Request
from rescale.planning.asked.resolved import Resolved, resolved
from rescale.snapshot.model import Snapshot

log = logging.getLogger(__name__)


def look_ahead(job: Job, request: Request, latest: Snapshot | Unread) -> bool:
    """Whether it shows that every operator has the shape already; raises what would be refused after the stop."""
    if isinstance(latest, Unread):
        _leave_to_the_plan(latest.why, latest.place)
        return False
    if not _is_of(job, latest):
        _leave_to_the_plan("its latest checkpoint has other operators or shapes than it has now", latest.directory)
        return False
    try:
        words = sure_words(latest.operators, request.surgery)
        asked = resolved(latest, replace(request, surgery=words))
        if words.state_drops == request.surgery.state_drops:  # else an operator may be left without keys
            _refuse_finished(job, asked)
            _refuse_key_hashes(asked)
    except (RequestError, UnsupportedError) as error:
        raise _while_it_runs(error, latest) from None
    except RescaleError as error:
        _leave_to_the_plan(f"its latest checkpoint cannot be read: {error.what}", latest.directory)
        return False
    if words == request.surgery or not _warns_of_surgery(latest, request):
        log.info("nothing in the job's latest checkpoint stands against what is asked for: %s", latest.directory)
    return _has_shape(asked, request)


def _leave_to_the_plan(why: str, place: str | None) -> None:
    where = f" ({place})" if place is not None else ""
    log.warning("only the plan of the savepoint will tell whether it has what is asked for: %s%s", why, where)


def _is_of(job: Job, checkpoint: Snapshot) -> bool:
    """Whether the first operator of every chain is in it, in the shape that it has now."""
    entries = {operator.entry.operator_id: operator.entry for operator in checkpoint.operators}
    return all(
        (entry := entries.get(vertex.operator_id)) is not None
        and (entry.parallelism, entry.max_parallelism) == (vertex.parallelism, vertex.max_parallelism)
        for vertex in job.vertices
    )


def _refuse_finished(job: Job, asked: Resolved) -> None:
    """Not if all subtasks may have finished since: of an operator further on in a chain Flink does not tell."""
    vertices = {vertex.operator_id: vertex.partially_finished for vertex in job.vertices}
    in_part = any(vertices.values()) and not any(vertex.finished for vertex in job.vertices)
    for operator in asked.snapshot.operators:
        is_so_still = operator.partially_finished and vertices.get(operator.entry.operator_id, in_part)
        shape, entry = asked.shapes[operator.entry.operator_id], operator.entry
        if is_so_still and (
            shape.parallelism != entry.parallelism
            or (operator.keyed_headers and shape.max_parallelism != entry.max_parallelism)
        ):
            refuse_finished(asked.snapshot.operators, asked.shapes, asked.request)


def _refuse_key_hashes(asked: Resolved) -> None:
    """Of operators with another max parallelism, the records of which are read whatever the kind."""
    own = {operator.entry.operator_id: operator.entry.max_parallelism for operator in asked.snapshot.operators}
    changed = {one: shape.max_parallelism for one, shape in asked.shapes.items() if shape.max_parallelism != own[one]}
    if not changed:
        return
    from rescale.orchestration.job.sampled_keys import refuse_by_sample  # brings numpy, which few requests need
    from rescale.planning.asked.key_hashes import choose_key_hashes

    for operator in asked.snapshot.operators:
        if is_logged(operator):  # the changes alone may not say how keys are written
            changed.pop(operator.entry.operator_id, None)
    choose_key_hashes(asked.snapshot, changed, asked.request.key_hash, refuse_by_sample)


def _while_it_runs(error: RescaleError, checkpoint: Snapshot) -> RescaleError:
    """The error, as of the checkpoint."""
    advice = error.advice and error.advice.replace("rescale inspect", 'a run of "Plan only" with this checkpoint')
    return type(error)(
        f"{error.what} (so the job's latest checkpoint shows, and nothing was stopped)",
        path=checkpoint.metadata_uri,
        operator=error.operator,
        state=error.state,
        expected=error.expected,
        found=error.found,
        advice=advice,
    )


def _warns_of_surgery(checkpoint: Snapshot, request: Request) -> bool:
    """Whether something is named that the checkpoint has not, and the savepoint may have; the log says what."""
    try:
        asked_surgery(checkpoint, request.surgery)
    except RescaleError as error:
        found = "" if error.found is None else f" ({error.found})"
        whose = "" if error.operator is None else f" of {error.operator}"
        tell(
            f"warning: the plan will refuse the savepoint{whose} unless it has more than the job's latest checkpoint, "
            f"{checkpoint.directory}: {error.what}{found}"
        )
        return True
    return False


def _has_shape(asked: Resolved, request: Request) -> bool:
    """Whether a shape is asked for and nothing else, and every operator has it already."""
    entries = (operator.entry for operator in asked.snapshot.operators)
    has = all(asked.shapes[one.operator_id] == Shape(one.parallelism, one.max_parallelism) for one in entries)
    return has and asks_for_a_shape_alone(request)
