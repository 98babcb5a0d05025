"""Warnings about sinks of which only some of Flink's operators are renamed or dropped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.request.request import make_request
from rescale.planning.request.surgery import resolve_surgery
from rescale.planning.request.surgery_request import parse_surgery
from rescale.planning.warnings.sinks import sink_warnings
from rescale.snapshot.model import Operator
from rescale.snapshot.surgery import apply_surgery
from support.synthetic import element_stream, operator, snapshot

SINK_UIDS = ("orders", "Sink Committer: orders", "orders: FileSinkCompactorOperator")


def stateful_operator(uid: str) -> Operator:
    """Return an operator as Flink 1 writes it, without its uid."""
    elements = (element_stream(0, {"raw": (DistributionMode.SPLIT_DISTRIBUTE, 0)}),)
    unnamed = operator(uid, elements=elements)
    return operator(uid, elements=elements, label=unnamed.operator_id)


def warnings_of(operators: Sequence[Operator], *, renames: Sequence[str] = (), drops: Sequence[str] = ()) -> list[str]:
    request = make_request("/source", "/target", surgery=parse_surgery(renames=renames, drops=drops))
    source = snapshot(*operators)
    surgery = resolve_surgery(source, request.surgery)
    return list(sink_warnings(apply_surgery(source, surgery).operators, surgery, request))


def test_renaming_a_sink_without_its_committer_gives_a_warning() -> None:
    operators = [stateful_operator(uid) for uid in (*SINK_UIDS, "Sink Committer: others")]
    (sentence,) = warnings_of(operators, renames=["orders=sales"])
    assert "Sink Committer: orders, orders: FileSinkCompactorOperator. " in sentence
    assert sentence.endswith(
        ": rename Sink Committer: orders to Sink Committer: sales and orders: FileSinkCompactorOperator to sales: "
        "FileSinkCompactorOperator"
    )


def test_renaming_a_sink_to_an_id_warns_without_naming_its_committer() -> None:
    (sentence,) = warnings_of(list(map(stateful_operator, SINK_UIDS)), renames=[f"orders={'ab' * 16}"])
    assert sentence.endswith(": rename them, too")


def test_dropping_a_sink_without_its_committer_gives_a_warning() -> None:
    (sentence,) = warnings_of(
        list(map(stateful_operator, SINK_UIDS)), drops=["orders", "orders: FileSinkCompactorOperator"]
    )
    assert "Sink Committer: orders. " in sentence
    assert sentence.endswith(": drop them, too")


@pytest.mark.parametrize(
    ("renames", "drops"),
    [
        ([f"{uid}={uid.replace('orders', 'sales')}" for uid in SINK_UIDS], []),
        ([], SINK_UIDS),
        (["others=more"], []),
        ([], ["others"]),
    ],
)
def test_whole_sinks_and_other_operators_give_no_warning(renames: list[str], drops: list[str]) -> None:
    operators = [*map(stateful_operator, (*SINK_UIDS, "others")), operator("Sink Committer: others")]
    assert warnings_of(operators, renames=renames, drops=drops) == []
