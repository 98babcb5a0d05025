"""Sentences of `inspect` on state that a run refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import read_operator_state_header
from rescale.planning.obstacles import obstacles
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.report.pages.inspection import inspection
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import ElementStream
from rescale.text.errors import SnapshotError, UnsupportedError
from support.snapshot_bytes import INT, LONG, STRING, keyed_header, keyed_state, operator_header, operator_list
from support.snapshots import names, opened
from support.synthetic import element_stream, header_of, operator, own_stream, snapshot

JOIN_CONDITION = "a run refuses this if it joins state of these subtasks, or reads their records"


def header(value: bytes, *, key: bytes = STRING, compressed: bool = False) -> KeyedHeader:
    return read_keyed_header(keyed_header(keyed_state("sum", value), key=key, compressed=compressed), "")


def keyed(*headers: KeyedHeader | bytes, framing: Framing = Framing.CANONICAL) -> tuple[KeyedStream, ...]:
    """Return a keyed stream for each header."""
    return tuple(own_stream(i, len(headers), 128, framing, stream_header) for i, stream_header in enumerate(headers))


def elements(*values: bytes) -> tuple[ElementStream, ...]:
    headers = [read_operator_state_header(operator_header((operator_list("words", value),)), "") for value in values]
    return tuple(
        element_stream(i, {"words": (DistributionMode.SPLIT_DISTRIBUTE, 1)}, stream_header)
        for i, stream_header in enumerate(headers)
    )


UNLIKE_STATE = {
    "values": {"keyed": keyed(header(INT), header(LONG))},
    "keys": {"keyed": keyed(header(INT), header(INT, key=LONG))},
    "compression": {"keyed": keyed(header(INT), header(INT, compressed=True))},
    "unknown serializers": {"keyed": keyed(b"one", b"two")},
    "elements": {"elements": elements(INT, LONG)},
}


@pytest.mark.parametrize("difference", UNLIKE_STATE)
def test_headers_that_contradict_are_an_obstacle_where_a_plan_is_refused(difference: str) -> None:
    """Parallelism 1 joins the states of both subtasks, so a plan is refused; the stored parallelism 2 joins none."""
    source = snapshot(operator("counts", **UNLIKE_STATE[difference]))
    (sentence,) = obstacles(source)
    with pytest.raises((SnapshotError, UnsupportedError)) as caught:
        make_plan(source, make_request("/source", "/target", ["1"]))
    assert caught.value.operator == "counts"
    assert sentence.startswith(f"counts: {caught.value.what}")
    assert f"; {JOIN_CONDITION}: " in sentence
    assert str(caught.value.advice or "use another snapshot") in sentence
    assert make_plan(source, make_request("/source", "/target")).operators
    assert inspection(source).warnings == (sentence,)


def test_contradicting_types_of_a_state_are_named() -> None:
    (sentence,) = obstacles(snapshot(operator("counts", **UNLIKE_STATE["values"])))
    assert ", state sum (VALUE of Int and VALUE of Long); " in sentence


def test_headers_of_heap_streams_differ_if_entries_cannot_be_delimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where entries can be delimited, a run reads them and gives them the ids of the merged header."""
    source = snapshot(operator("counts", keyed=keyed(header_of("a", "b"), header_of("b", "a"), framing=Framing.HEAP)))
    assert not list(obstacles(source))
    for module in ("obstacles", "request.result_kind"):
        monkeypatch.setattr(f"rescale.planning.{module}.can_delimit_entries", lambda _: False)
    (sentence,) = obstacles(source)
    with pytest.raises(UnsupportedError) as caught:
        make_plan(source, make_request("/source", "/target", ["1"]))
    assert sentence.startswith(f"counts: {caught.value.what}")


def test_headers_that_can_be_merged_are_no_obstacle() -> None:
    source = snapshot(operator("counts", keyed=keyed(header_of("a"), header_of("b", "a"))))
    assert not list(obstacles(source))
    assert make_plan(source, make_request("/source", "/target", ["1"])).operators


def test_state_that_is_dropped_is_no_obstacle() -> None:
    unlike_operator = replace(operator("counts", **UNLIKE_STATE["values"]), dropped_states=frozenset({"sum"}))
    assert not list(obstacles(snapshot(unlike_operator)))


def test_operators_with_the_same_obstacle_share_a_sentence() -> None:
    in_flight_operators = [operator(f"operator-{i}", channel_bytes=7) for i in range(8)]
    (sentence,) = obstacles(snapshot(*in_flight_operators, operator("counts")))
    assert "operator-4 and 3 more: this is an unaligned checkpoint" in sentence
    assert "(such as 7 bytes of channel state); a run refuses this unless the operator is dropped: " in sentence


def test_files_that_are_missing_are_the_only_obstacle() -> None:
    source = snapshot(operator("counts", **UNLIKE_STATE["values"]), missing=("/source/2",))
    assert not list(obstacles(source))


@pytest.mark.parametrize("name", [name for name in names() if not name.endswith("-unaligned")])
def test_snapshots_that_are_rescaled_have_no_obstacle(name: str) -> None:
    assert not list(obstacles(opened(name)))
