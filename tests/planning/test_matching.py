"""Which operators of a snapshot are taken for which of a job."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from rescale.errors import RequestError
from rescale.flink.job_graph import GraphVertex, read_job_graph
from rescale.flink.operator_id import operator_id_of_uid
from rescale.planning.asked.asked_surgery import asked_surgery
from rescale.planning.asked.surgery_words import parse_surgery
from rescale.planning.matching import Counterpart, StateSort, match, of_graph, of_snapshot
from rescale.snapshot.surgery import Renamed, Surgery, operated
from support import snapshots

COUNT, SUM, OTHER_SUM = (StateSort(n, "VALUE", d) for n, d in (("count", b"l"), ("sum", b"l"), ("sum", b"d")))
LISTED = StateSort("count", "LIST", b"l")


def one(operator_id: str, name: str = "", states: Iterable[StateSort] | None = (COUNT,)) -> Counterpart:
    known = None if states is None else frozenset(states)
    return Counterpart(operator_id, "", operator_id, name, known, stateful=known is None or bool(known))


def proposed(old: list[Counterpart], new: list[Counterpart]) -> dict[str, str]:
    return {found.old.operator_id: found.new.operator_id for found in match(old, new).proposed}


def test_a_job_with_generated_ids_finds_all_of_a_real_snapshot() -> None:
    """What is proposed is what was done to it, of operators with states of many sorts; equal ones are told by names."""
    source = snapshots.opened("2-clicks")
    ids = {o.operator_id: f"{number:032x}" for number, o in enumerate(source.operators)}
    renamed = Surgery(tuple(Renamed(old, "", new, new, "") for old, new in ids.items()))
    found = match(of_snapshot(source.operators), of_snapshot(operated(source, renamed).operators))
    assert found.certain
    assert {one.old.operator_id: one.new.operator_id for one in found.proposed}.items() <= ids.items()
    assert {one.old.label for one in found.proposed} == {one.label for one in source.operators if one.bytes} | {
        one.label for one in source.operators if one.entry.coordinator
    }
    words = [option.removeprefix("--rename ") for option in found.options]
    assert asked_surgery(source, parse_surgery(renames=words)).new_ids.items() <= ids.items()


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        ([one("a", "x")], [one("b", "x")], {"a": "b"}),
        ([one("a", "x")], [one("b", "y")], {"a": "b"}),
        ([one("a", "x"), one("b", "y")], [one("c", "y"), one("d", "x")], {"a": "d", "b": "c"}),
        ([one("a", "", [COUNT]), one("b", "", [SUM])], [one("c", "", [SUM]), one("d")], {"a": "d", "b": "c"}),
        ([one("a", "", [SUM])], [one("b", "", [OTHER_SUM])], {"a": "b"}),
        ([one("a", "", [SUM])], [one("b", "", [OTHER_SUM]), one("c", "", [SUM])], {"a": "c"}),
        ([one("a"), one("b")], [one("c")], {}),
        ([one("a")], [one("b"), one("c")], {}),
        ([one("a", "x", [COUNT])], [one("b", "x", [SUM])], {}),
        ([one("a", "x", [COUNT, SUM])], [one("b", "x", [LISTED, SUM])], {}),
        ([one("a", "x", [])], [one("b", "x", [])], {}),
        ([one("a", "Aggregate[4]")], [one("b", "Aggregate[7]", None)], {"a": "b"}),
        ([one("a", "x"), one("b", "y")], [one("b", "x", None), one("a", "y", None)], {"a": "b", "b": "a"}),
        ([one("a", "x")], [one("a", "y"), one("b", "z")], {}),
        ([one("a", "x")], [one("a", "x", [SUM]), one("b", "y", [COUNT])], {"a": "b"}),
    ],
)
def test_the_strongest_evidence_first_and_only_what_is_unique(
    old: list[Counterpart], new: list[Counterpart], pairs: dict[str, str]
) -> None:
    assert proposed(old, new) == pairs


def test_what_is_not_certain_is_said() -> None:
    twins, alone = [one("a"), one("b")], one("c", "", [SUM])
    found = match([*twins, alone], [one("d"), one("e", "z", [])])
    assert [(u.old.operator_id, [c.operator_id for c in u.candidates]) for u in found.unsure] == [
        ("a", ["d"]),
        ("b", ["d"]),
    ]
    assert (found.only_in_snapshot, found.options, found.certain) == ((alone,), [], False)


def test_an_id_of_a_uid_is_the_operators_whatever_it_is_called() -> None:
    uid = operator_id_of_uid("counts")
    old = Counterpart(uid, "counts", "counts", "x", frozenset({COUNT}))
    found = match([old], [one(uid, "y", None), one("b", "x", None)])
    assert (found.options, found.certain) == ([], True)


def test_who_has_no_state_makes_way() -> None:
    found = match([one("a"), one("b", "x", [])], [one("b", "", [COUNT]), one("c", "x", [])])
    assert found.options == ["--rename a=b", "--rename b=c"]
    found = match([one("a"), one("b", "x", [])], [one("b", "", [COUNT])])
    assert found.options == ["--rename a=b", "--drop b"]


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
def test_names_of_a_chain_by_their_descriptions(description: str, names: list[str]) -> None:
    document = f'{{"plan": {{"nodes": [{{"id": "{ID.upper()}", "description": "{description}"}}]}}}}'.encode()
    (vertex,) = read_job_graph(document, "plan.json")
    assert vertex == GraphVertex(ID, names[0], tuple(names[1:]))


def test_details_tell_the_names_themselves() -> None:
    named = {"id": ID, "name": "[vertex-0]source -> (Map -> Sink: out (1), Filter)"}
    document = {"vertices": [named], "plan": {"nodes": [{"id": ID, "description": "Window(other)<br/>"}]}}
    (vertex,) = read_job_graph(json.dumps(document).encode(), "job.json")
    assert vertex == GraphVertex(ID, "source", ("Map", "Sink: out (1)", "Filter"))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"nodes": []}', '{"nodes": [{"id": 1, "type": "Source"}]}', '{"plan": "none"}', "\xff"]
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="not the plan of a job") as caught:
        read_job_graph(text.encode("latin-1"), "/a/plan.json")
    assert caught.value.path == "/a/plan.json"
    assert "/jobs/JOB-ID, or" in str(caught.value.advice)


def test_of_who_is_chained_the_id_is_not_known() -> None:
    graph = of_graph([GraphVertex(ID, "source", ("count",))], {ID: "where it comes from"})
    assert [(c.operator_id, c.label, c.chain) for c in graph] == [
        (ID, "where it comes from", ""),
        ("", "count", "source"),
    ]
    found = match([one("a", "count"), one("b", "source")], graph)
    assert found.options == [f"--rename b={ID}"]
    assert [(m.old.operator_id, m.new.chain) for m in found.chained] == [("a", "source")]
    assert not found.certain
