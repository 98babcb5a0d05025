"""What the user should know of sinks that are renamed or dropped by halves: a sink is several operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from shlex import quote

from rescale.flink.operator_id import operator_id_of_uid
from rescale.flink.sink_uids import uids_beside_writer
from rescale.planning.asked.request import Request
from rescale.snapshot.model import Operator
from rescale.snapshot.surgery import Surgery


def of_sinks(operators: Sequence[Operator], surgery: Surgery, request: Request) -> Iterator[str]:
    """One sentence for each; `operators` are those after the surgery.

    A snapshot of Flink 1 does not hold uids: they are then the words of the request.
    """
    staying = {operator.operator_id for operator in operators if operator.operator}
    for one in surgery.renamed:
        uid = _uid(one.operator_id, (one.label, *request.surgery.renames))
        if left := _left(uid, staying):
            also = dict(zip(uids_beside_writer(uid), uids_beside_writer(one.uid), strict=True))
            words = _renames(left, also) if one.uid else "rename them, too"
            yield (
                f"{one.label}: it is renamed, but not what else Flink makes of the sink and names after it: "
                f"{', '.join(left)}. A job whose sink has the new uid refuses their state, or, told to leave it "
                f"behind, starts without what is still to be committed: {words}"
            )
    for dropped in surgery.dropped:
        if left := _left(_uid(dropped.operator_id, (dropped.label, *request.surgery.drops)), staying):
            words = " ".join(f"--drop {quote(uid)}" for uid in left)
            yield (
                f"{dropped.label}: it is dropped, but not what else Flink makes of the sink and names after it: "
                f"{', '.join(left)}. A job without the sink refuses their state: {words}"
            )


def _uid(operator_id: str, words: Sequence[str]) -> str:
    """The uid that the id comes from, "" if it is none of these."""
    return next((word for word in words if operator_id_of_uid(word) == operator_id), "")


def _left(uid: str, staying: set[str]) -> list[str]:
    """The uids of a sink's other operators that are still there."""
    return [beside for beside in uids_beside_writer(uid) if uid and operator_id_of_uid(beside) in staying]


def _renames(left: Sequence[str], also: Mapping[str, str]) -> str:
    return " ".join(f"--rename {quote(f'{uid}={also[uid]}')}" for uid in left)
