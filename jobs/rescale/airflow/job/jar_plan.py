"""Check that the job of a jar will have the operators of the snapshot, before the running job is stopped.

An operator without a uid gets another id if other operators are chained than before, as they may be at another
parallelism (`StreamGraphHasherV2`). Flink lists every operator in a snapshot, stateless ones too, and names a vertex
after the first operator of its chain. So Flink itself can say whether the job's vertices are known.
"""

from __future__ import annotations

import html
import logging

from rescale.airflow.flink.flink_access import open_flink
from rescale.airflow.flink.hand_overs import HandOver, RunJar
from rescale.airflow.flink.starting import jar_id
from rescale.airflow.job.latest_checkpoint import UnreadableCheckpoint
from rescale.snapshot.model import Snapshot
from rescale.text.errors import RequestError, RescaleError, StoreError
from rescale.text.names import first_of

_SHOWN = 5
"""Largest number of vertices that an error names."""

log = logging.getLogger(__name__)


def refuse_unknown_vertices(hand_over: HandOver, latest: Snapshot | UnreadableCheckpoint, parallelism: int) -> None:
    """Raise `RequestError` if the jar's job, at its new default parallelism, has a vertex that the checkpoint lacks.

    Does nothing if the job is not handed over by a jar, or the checkpoint cannot be read.
    """
    if not isinstance(hand_over, RunJar) or isinstance(latest, UnreadableCheckpoint):
        return
    with open_flink(hand_over.flink) as flink:
        jar = jar_id(flink, hand_over.jar)
        try:
            vertices = flink.jar_vertices(
                jar, parallelism, hand_over.entry_class, hand_over.arguments, hand_over.configuration
            )
        except StoreError:
            raise
        except RescaleError as error:
            log.warning("Flink does not plan the jar's job, so its operators are not compared: %s", error)
            return
    known = {operator.operator_id for operator in latest.operators}
    unknown = [f"{_name(text)} ({vertex})" for vertex, text in vertices.items() if vertex not in known]
    if unknown:
        raise RequestError(
            f"with parallelism {parallelism}, the jar's job has operators that the running job does not have, so Flink "
            "would not find their state (the job was not stopped)",
            path=hand_over.jar,
            expected=f"operators of the job's latest checkpoint {latest.directory}",
            found=first_of(unknown, _SHOWN),
            advice="give each operator a uid: without one, its id depends on which operators are chained, and those "
            "change with the parallelism. If the jar holds another program, choose to print the command",
        )


def _name(description: str) -> str:
    """Return the name of a vertex from its description, which is HTML (`JsonPlanGenerator`)."""
    return " ".join(html.unescape(description).replace("<br/>", " ").split())
