"""Check, before a job is stopped, that its jar has the same operators at another parallelism.

Operators without a uid have generated ids, which depend on how operators are chained, and chains may change with the
parallelism (`StreamGraphHasherV2`). Flink then refuses the state of an operator whose id the job no longer has.

Flink's plan of a jar lists the chains (vertices); the id of a vertex is that of its first operator. A snapshot has an
entry for every operator, also for those without state, so an unknown vertex shows that ids have changed.
"""

from __future__ import annotations

import logging

from rescale.airflow.flink.starting import planned_vertices
from rescale.airflow.forms.form import field_title
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.task_log import log_text
from rescale.flink.start import common_parallelism
from rescale.flink_rest.client import Flink
from rescale.planning.request.resolution import ResolvedRequest
from rescale.planning.warnings.chains import operators_without_uid
from rescale.text.errors import RequestError, RescaleError
from rescale.text.names import first_of

log = logging.getLogger(__name__)

_MOST_OPERATORS = 5
"""Largest number of operators that an error names."""


def refuse_other_ids(flink: Flink, hand_over: RunJar, resolved: ResolvedRequest) -> None:
    """Raise `RequestError` if state would be left without its operator, because ids change with the parallelism.

    `resolved` is the request, resolved for the job's latest checkpoint. The error is raised if two conditions hold.
    First, the new parallelism, but not the current one, gives the jar a vertex that is not in the checkpoint. Second,
    the checkpoint has state of an operator without a uid, and this operator is no vertex with the new parallelism. If
    the jar has unknown vertices with the current parallelism, too, it is another version of the job. Its new operators
    may be intended, so this only logs a warning.
    """
    operators = resolved.snapshot.operators
    shapes = [resolved.shapes[operator.operator_id] for operator in operators]
    parallelism_before = common_parallelism(
        [(operator.parallelism, operator.max_parallelism) for operator in operators]
    )
    parallelism_after = common_parallelism([(shape.parallelism, shape.max_parallelism) for shape in shapes])
    if parallelism_before == parallelism_after:
        return
    checkpoint_operator_ids = {operator.operator_id for operator in operators}
    try:
        new_description_by_id, old_description_by_id = (
            planned_vertices(flink, hand_over, parallelism) for parallelism in (parallelism_after, parallelism_before)
        )
    except RescaleError as error:
        log_text(f"warning: Flink does not plan the jar, so the ids of its operators are not checked: {error.what}")
        return
    unknown_vertices = [
        description for id_, description in new_description_by_id.items() if id_ not in checkpoint_operator_ids
    ]
    if not old_description_by_id.keys() <= checkpoint_operator_ids:
        vertices_of_new_version = [
            description for id_, description in old_description_by_id.items() if id_ not in checkpoint_operator_ids
        ]
        log_text(
            "warning: the jar has operators that the job's latest checkpoint does not have; a new version of the job "
            f"may have them: {first_of(vertices_of_new_version, _MOST_OPERATORS)}"
        )
        return
    operators_at_risk = [
        operator.label
        for operator in operators_without_uid(resolved.snapshot)
        if operator.operator_id not in new_description_by_id
    ]
    if unknown_vertices and operators_at_risk:
        raise RequestError(
            f"at parallelism {parallelism_after} the job has operators that are not in its state: generated ids change "
            "with the chaining of operators (the job was not stopped)",
            path=flink.address,
            expected=f"at parallelism {parallelism_after} the operators that the job has at parallelism "
            f"{parallelism_before}",
            found=f"{first_of(unknown_vertices, _MOST_OPERATORS)}; state that may have no operator then: "
            f"{first_of(operators_at_risk, _MOST_OPERATORS)}",
            advice="match the snapshot with the job's graph at the new parallelism to see the new ids: enter them "
            f'under "{field_title("renames")}". If these operators with state have uids, enter them under '
            f'"{field_title("operator_names")}"',
        )
    log.info("the jar keeps the ids of operators with state at parallelism %d", parallelism_after)
