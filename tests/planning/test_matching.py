"""Matching of a snapshot's operators with those of a job."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from rescale.flink.job_graph import GraphVertex, read_job_graph
from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.match_document import MatchDocument
from rescale.planning.matching import (
    Counterpart,
    StateSignature,
    counterparts_of_graph,
    counterparts_of_snapshot,
    match,
)
from rescale.planning.request.surgery import resolve_surgery
from rescale.planning.request.surgery_request import parse_surgery
from rescale.snapshot.surgery import Renamed, Surgery, apply_surgery
from rescale.text.errors import RequestError
from support import snapshots

COUNT, SUM, OTHER_SUM = (StateSignature(n, "VALUE", d) for n, d in (("count", b"l"), ("sum", b"l"), ("sum", b"d")))
COUNT_LIST = StateSignature("count", "LIST", b"l")


def counterpart(operator_id: str, name: str = "", states: Iterable[StateSignature] | None = (COUNT,)) -> Counterpart:
    known = None if states is None else frozenset(states)
    return Counterpart(operator_id, "", operator_id, name, known, is_stateful=known is None or bool(known))


def matching(old: list[Counterpart], new: list[Counterpart]) -> MatchDocument:
    return match("/savepoint", "/job", old, new)


def proposed_ids(old: list[Counterpart], new: list[Counterpart]) -> dict[str, str]:
    return {pair.operator_id: pair.new_operator_id for pair in matching(old, new).proposed}


def test_job_with_generated_ids_matches_every_operator_of_a_snapshot() -> None:
    """Operators with state of many kinds get other ids and are matched by that state; names tell equal states apart."""
    source = snapshots.opened("2-clicks")
    new_id_by_old = {o.operator_id: f"{number:032x}" for number, o in enumerate(source.operators)}
    renaming = Surgery(tuple(Renamed(old, "", new, new, "") for old, new in new_id_by_old.items()))
    matched = matching(
        counterparts_of_snapshot(source.operators), counterparts_of_snapshot(apply_surgery(source, renaming).operators)
    )
    assert matched.certain
    assert {pair.operator_id: pair.new_operator_id for pair in matched.proposed}.items() <= new_id_by_old.items()
    assert {pair.label for pair in matched.proposed} == {
        operator.label for operator in source.operators if operator.bytes
    } | {operator.label for operator in source.operators if operator.entry.coordinator}
    renames = [option.removeprefix("--rename ") for option in matched.options]
    assert resolve_surgery(source, parse_surgery(renames=renames)).new_ids.items() <= new_id_by_old.items()


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        ([counterpart("a", "x")], [counterpart("b", "x")], {"a": "b"}),
        ([counterpart("a", "x")], [counterpart("b", "y")], {"a": "b"}),
        (
            [counterpart("a", "x"), counterpart("b", "y")],
            [counterpart("c", "y"), counterpart("d", "x")],
            {"a": "d", "b": "c"},
        ),
        (
            [counterpart("a", "", [COUNT]), counterpart("b", "", [SUM])],
            [counterpart("c", "", [SUM]), counterpart("d")],
            {"a": "d", "b": "c"},
        ),
        ([counterpart("a", "", [SUM])], [counterpart("b", "", [OTHER_SUM])], {"a": "b"}),
        ([counterpart("a", "", [SUM])], [counterpart("b", "", [OTHER_SUM]), counterpart("c", "", [SUM])], {"a": "c"}),
        ([counterpart("a"), counterpart("b")], [counterpart("c")], {}),
        ([counterpart("a")], [counterpart("b"), counterpart("c")], {}),
        ([counterpart("a", "x", [COUNT])], [counterpart("b", "x", [SUM])], {}),
        ([counterpart("a", "x", [COUNT, SUM])], [counterpart("b", "x", [COUNT_LIST, SUM])], {}),
        ([counterpart("a", "x", [])], [counterpart("b", "x", [])], {}),
        ([counterpart("a", "Aggregate[4]")], [counterpart("b", "Aggregate[7]", None)], {"a": "b"}),
        (
            [counterpart("a", "x"), counterpart("b", "y")],
            [counterpart("b", "x", None), counterpart("a", "y", None)],
            {"a": "b", "b": "a"},
        ),
        ([counterpart("a", "x")], [counterpart("a", "y"), counterpart("b", "z")], {}),
        ([counterpart("a", "x")], [counterpart("a", "x", [SUM]), counterpart("b", "y", [COUNT])], {"a": "b"}),
    ],
)
def test_matching_takes_the_strongest_evidence_and_only_unique_pairs(
    old: list[Counterpart], new: list[Counterpart], pairs: dict[str, str]
) -> None:
    assert proposed_ids(old, new) == pairs


def test_ambiguous_matches_are_listed_with_their_candidates() -> None:
    twins, alone = [counterpart("a"), counterpart("b")], counterpart("c", "", [SUM])
    matched = matching([*twins, alone], [counterpart("d"), counterpart("e", "z", [])])
    assert [(u.operator_id, [c.operator_id for c in u.candidates]) for u in matched.unsure] == [
        ("a", ["d"]),
        ("b", ["d"]),
    ]
    assert ([o.operator_id for o in matched.only_in_snapshot], matched.options, matched.certain) == (["c"], (), False)


def test_operator_with_the_id_of_a_uid_matches_under_any_label() -> None:
    operator_id = operator_id_of_uid("counts")
    old = Counterpart(operator_id, "counts", "counts", "x", frozenset({COUNT}))
    matched = matching([old], [counterpart(operator_id, "y", None), counterpart("b", "x", None)])
    assert (matched.options, matched.certain) == ((), True)


def test_operator_without_state_gives_its_id_to_one_with_state() -> None:
    matched = matching(
        [counterpart("a"), counterpart("b", "x", [])], [counterpart("b", "", [COUNT]), counterpart("c", "x", [])]
    )
    assert matched.options == ("--rename a=b", "--rename b=c")
    matched = matching([counterpart("a"), counterpart("b", "x", [])], [counterpart("b", "", [COUNT])])
    assert matched.options == ("--rename a=b", "--drop b")


ID = "ab" * 16

TREE = "x + 1 &gt; y<br/>:- map<br/>:  +- Sink: out<br/>+- filter<br/>   :- deep<br/>"


@pytest.mark.parametrize(
    ("description", "names"),
    [
        (TREE, ["x + 1 > y", "map", "Sink: out", "filter", "deep"]),
        ("Source: numbers<br/>", ["Source: numbers"]),
        ("a -&gt; (b -&gt; (c , d) , e)", ["a", "b", "c", "d", "e"]),
        (
            "[4]:GroupAggregate(groupBy=[f0], select=[f0, COUNT(*) AS EXPR$1])<br/>+- [5]:Sink()<br/>",
            ["GroupAggregate[4]", "Sink[5]"],
        ),
        ("[vertex-3]counts<br/>", ["counts"]),
        ("Window(GlobalWindows(), PurgingTrigger, Told)<br/>", ["GlobalWindows"]),
        ("", [""]),
    ],
)
def test_names_in_a_chain_are_read_from_the_description_of_its_vertex(description: str, names: list[str]) -> None:
    document = f'{{"plan": {{"nodes": [{{"id": "{ID.upper()}", "description": "{description}"}}]}}}}'.encode()
    (vertex,) = read_job_graph(document, "plan.json")
    assert vertex == GraphVertex(ID, names[0], tuple(names[1:]))


def test_names_in_a_chain_are_read_from_the_details_of_a_job() -> None:
    vertex_details = {"id": ID, "name": "[vertex-0]source -> (Map -> Sink: out (1), Filter)"}
    document = {"vertices": [vertex_details], "plan": {"nodes": [{"id": ID, "description": "Window(other)<br/>"}]}}
    (vertex,) = read_job_graph(json.dumps(document).encode(), "job.json")
    assert vertex == GraphVertex(ID, "source", ("Map", "Sink: out (1)", "Filter"))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"nodes": []}', '{"nodes": [{"id": 1, "type": "Source"}]}', '{"plan": "none"}', "\xff"]
)
def test_file_that_is_no_plan_of_a_job_is_refused(content: str) -> None:
    with pytest.raises(RequestError, match="neither the details nor the plan of a job") as caught:
        read_job_graph(content.encode("latin-1"), "/a/plan.json")
    assert caught.value.path == "/a/plan.json"
    assert "/jobs/JOB-ID, or" in str(caught.value.advice)


def test_operator_inside_a_chain_has_no_known_id() -> None:
    graph = counterparts_of_graph([GraphVertex(ID, "source", ("count",))], {ID: "where it comes from"})
    assert [(c.operator_id, c.label, c.chain) for c in graph] == [
        (ID, "where it comes from", ""),
        ("", "count", "source"),
    ]
    matched = matching([counterpart("a", "count"), counterpart("b", "source")], graph)
    assert matched.options == (f"--rename b={ID}",)
    assert [(m.operator_id, m.chain) for m in matched.chained] == [("a", "source")]
    assert not matched.certain
