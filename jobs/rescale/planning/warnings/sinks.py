"""Warnings about sinks of which only some operators are renamed or dropped: Flink makes several operators of a sink."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.request.request import Request
from rescale.snapshot.model import Operator
from rescale.snapshot.surgery import Surgery

_UID_TEMPLATES_BESIDE_WRITER = (
    "Sink Committer: {}",
    "Sink {} Global Committer",
    "{}: FileSinkCompactorCoordinator",
    "{}: FileSinkCompactorOperator",
)
"""Uids of a sink's operators other than its writer, which has the sink's own uid (`SinkTransformationTranslator`)."""


def sink_warnings(operators: Sequence[Operator], surgery: Surgery, request: Request) -> Iterator[str]:
    """Yield a warning for each sink whose writer is renamed or dropped, but whose other operators are not.

    `operators` are the operators after the surgery. Snapshots of Flink 1 hold no uids, so the request must name
    the operator by its uid.
    """
    staying_ids = {operator.operator_id for operator in operators if operator.element_streams}
    for renamed in surgery.renamed:
        uid = _uid_in(renamed.operator_id, (renamed.label, *request.surgery.renames))
        if remaining_uids := _remaining_uids_of(uid, staying_ids):
            new_uid_by_uid = dict(zip(_uids_beside_writer(uid), _uids_beside_writer(renamed.uid), strict=True))
            renames = " and ".join(f"{uid} to {new_uid_by_uid[uid]}" for uid in remaining_uids)
            advice = f"rename {renames}" if renamed.uid else "rename them, too"
            yield (
                f"{renamed.label}: it is renamed, but the other operators that Flink makes from the sink keep their "
                f"names: {', '.join(remaining_uids)}. A job whose sink has the new uid refuses their state; if it may "
                f"ignore that state, it loses uncommitted data: {advice}"
            )
    for dropped in surgery.dropped:
        if remaining_uids := _remaining_uids_of(
            _uid_in(dropped.operator_id, (dropped.label, *request.surgery.drops)), staying_ids
        ):
            yield (
                f"{dropped.label}: it is dropped, but the other operators that Flink makes from the sink are not: "
                f"{', '.join(remaining_uids)}. A job without the sink refuses their state: drop them, too"
            )


def _uid_in(operator_id: str, names: Sequence[str]) -> str:
    """Return the name that hashes to the operator id; "" if there is none among `names`."""
    return next((name for name in names if operator_id_of_uid(name) == operator_id), "")


def _remaining_uids_of(uid: str, staying_ids: set[str]) -> list[str]:
    """Return the uids of the sink's other operators that are in the snapshot after the surgery."""
    return [
        uid_beside for uid_beside in _uids_beside_writer(uid) if uid and operator_id_of_uid(uid_beside) in staying_ids
    ]


def _uids_beside_writer(uid: str) -> tuple[str, ...]:
    """Return the uids of the operators that a sink with this uid may have beside its writer, in a fixed order."""
    return tuple(template.format(uid) for template in _UID_TEMPLATES_BESIDE_WRITER)
