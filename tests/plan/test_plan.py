"""The plan as a document, and the planner as a function."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_id import operator_id_of_uid
from rescale.flink.slot import Slot
from rescale.plan.new_streams import META_STREAM, CopiedFile, TranslatedKeyGroups
from rescale.plan.pieces import Piece
from rescale.plan.plan import PLAN_FORMAT, Plan, plan_from_json, plan_to_json
from rescale.planning.planner import make_plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import SnapshotError, UnsupportedError
from support.snapshot_bytes import keyed_header, keyed_state, operator_header, operator_list
from support.snapshots import directory, names, opened, with_databases
from support.synthetic import element_stream, operator, own_stream, snapshot

PLANNED_FIXTURES = [
    "2-canonical-hashmap",
    "1.20-heap-native",
    "2-lazy-compressed",
    "1.20-raw",
    "1.20-windows",
    "2-source",
]

HEADER = read_keyed_header(keyed_header(keyed_state("one")), "header")


def plan_of(name: str, *parallelism: str) -> Plan:
    return make_plan(opened(name), make_request(directory(name), "/target", parallelism))


@pytest.mark.parametrize("name", PLANNED_FIXTURES)
@pytest.mark.parametrize("parallelism", [[], ["1"], ["7"]])
def test_a_plan_is_read_as_it_was_written(name: str, parallelism: list[str]) -> None:
    plan = plan_of(name, *parallelism)
    document = plan_to_json(plan)
    read_plan = plan_from_json(document, "plan")
    assert read_plan == plan
    assert plan_to_json(read_plan) == document
    assert read_plan.digest == plan.digest
    json.loads(document)


@pytest.mark.parametrize("name", PLANNED_FIXTURES)
def test_the_same_snapshot_and_request_give_the_same_plan(name: str) -> None:
    fresh_snapshot = open_snapshot(
        directory(name), ids_and_labels=[(o.operator_id, o.label) for o in opened(name).operators]
    )
    request = make_request(directory(name), "/target", ["3"])
    assert make_plan(fresh_snapshot, request).digest == plan_of(name, "3").digest


def test_digest_of_a_plan_ignores_warnings() -> None:
    plan = plan_of("2-source", "3")
    assert replace(plan, warnings=("another sentence",)).digest == plan.digest
    assert replace(plan, checkpoint_id=plan.checkpoint_id + 1).digest != plan.digest


def test_unused_operator_names_do_not_change_the_digest() -> None:
    labels = [*((o.operator_id, o.label) for o in opened("2-raw").operators), ("ab" * 16, "misspelt")]
    fresh_snapshot = open_snapshot(directory("2-raw"), ids_and_labels=labels)
    assert fresh_snapshot.unused_names == (f"misspelt ({'ab' * 16})",)
    assert (
        make_plan(fresh_snapshot, make_request(directory("2-raw"), "/target", ["3"])).digest
        == plan_of("2-raw", "3").digest
    )


def test_another_request_gives_another_digest() -> None:
    digests = {plan_of("2-raw", *shape).digest for shape in ([], ["1"], ["3"], ["3", "lists=2"])}
    other_plan = make_plan(opened("2-raw"), make_request(directory("2-raw"), "/elsewhere", ["3"]))
    assert len({*digests, other_plan.digest}) == 5


def test_nothing_is_read_while_planning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot value holds all that the planner needs."""
    request = make_request(str(tmp_path / "gone"), "/target", ["3"])
    opened("2-lazy")
    monkeypatch.setattr("rescale.storage.store._local", None)
    monkeypatch.setattr("builtins.open", None)
    assert make_plan(opened("2-lazy"), request).operators


def test_plan_pins_its_files() -> None:
    plan = plan_of("2-canonical-hashmap", "2")
    assert plan.files[0].uri.endswith("/_metadata")
    for uri, pin in plan.files:
        stat = Path(uri).stat()
        assert (pin.size, pin.mtime_ns) == (stat.st_size, stat.st_mtime_ns)


@pytest.mark.parametrize("name", [name for name in names() if "changelog" not in name])
def test_at_the_same_shape_every_byte_of_state_is_moved(name: str) -> None:
    try:
        plan = plan_of(name)
    except UnsupportedError:
        return
    assert plan.bytes_moved == opened(name).bytes


IN_FLIGHT_FIXTURES = {name for name in names() if name.endswith("unaligned")}
CHANGELOG_FIXTURES = {name for name in names() if name.endswith("changelog-over-heap")}
DATABASE_FIXTURES = set(with_databases())


@pytest.mark.parametrize(
    ("name", "parallelism"), [(name, parallelism) for name in names() for parallelism in ((), ("5",))]
)
def test_only_unsupported_snapshots_are_refused_and_with_advice(name: str, parallelism: tuple[str, ...]) -> None:
    request = make_request(directory(name), "/target", parallelism)
    if name not in IN_FLIGHT_FIXTURES | CHANGELOG_FIXTURES and not (parallelism and "partially" in name):
        assert prepare(request).plan.operators
        return
    with pytest.raises(UnsupportedError) as caught:
        prepare(request)
    assert caught.value.operator
    assert any(way in str(caught.value.advice) for way in ("savepoint", "--format canonical"))


@pytest.mark.parametrize("name", sorted(DATABASE_FIXTURES))
def test_copied_database_files_are_whole_and_keep_their_names(name: str) -> None:
    """Every file of the database is copied exactly once."""
    for source, planned in zip(opened(name).operators, plan_of(name).operators, strict=True):
        assert [(d.subtask, d.first_key_group, d.key_groups) for d in planned.databases] == [
            (d.subtask, d.key_groups.first, len(d.key_groups)) for d in source.databases
        ]
        pieces_by_file = {(s.subtask, s.local_name): s.pieces for s in planned.streams if isinstance(s, CopiedFile)}
        for database in source.databases:
            for local_name, extent in ((META_STREAM, database.header_extent), *database.files):
                assert pieces_by_file.pop((database.subtask, local_name)) == ((*extent, None),)
        assert not pieces_by_file


@pytest.mark.parametrize("document", [b"", b"{}", b"[]", b"\xff", b'{"format": %d}' % PLAN_FORMAT, b"null"])
def test_malformed_plan_is_refused(document: bytes) -> None:
    with pytest.raises(SnapshotError, match="not a plan") as caught:
        plan_from_json(document, "/place")
    assert (caught.value.path, bool(caught.value.found), bool(caught.value.advice)) == ("/place", True, True)


def test_a_plan_of_another_version_is_refused() -> None:
    with pytest.raises(SnapshotError, match="another version"):
        plan_from_json(plan_to_json(replace(plan_of("2-source"), format=PLAN_FORMAT + 1)), "/place")
    with pytest.raises(SnapshotError, match="another version"):
        plan_from_json(b'{"format": 1, "of old": true}', "/place")


def test_snapshot_with_missing_files_is_refused() -> None:
    with pytest.raises(SnapshotError, match="files that the snapshot refers to are gone") as caught:
        make_plan(snapshot(operator("counts"), missing=("/source/a", "/source/b")), make_request("/source", "/target"))
    assert caught.value.found == "2 missing, such as /source/a"


def test_records_in_flight_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="records in flight"):
        make_plan(snapshot(operator("counts", channel_bytes=9)), make_request("/source", "/target"))


def test_an_operator_whose_subtasks_have_partly_finished_keeps_its_parallelism() -> None:
    source = snapshot(operator("ended", 3, finished=(1,)), operator("counts"))
    assert make_plan(source, make_request("/source", "/target", ["counts=5"])).operators[1].new_parallelism == 5
    with pytest.raises(UnsupportedError, match="have finished") as caught:
        make_plan(source, make_request("/source", "/target", ["5"]))
    assert caught.value.operator == "ended"
    assert "let Flink itself change the parallelism" in str(caught.value.advice)


@pytest.mark.parametrize("name", ["1.20-partially-finished", "2-partially-finished"])
def test_refusal_of_partly_finished_operators_prints_a_request_that_works(name: str) -> None:
    """The refusal comes before anything else is planned, such as how keys hash."""
    source, shape = directory(name), {"parallelism": ["3"], "max_parallelism": ["32"]}
    with (
        patch("rescale.planning.request.key_hashes.choose_key_hashes", side_effect=AssertionError),
        pytest.raises(UnsupportedError, match="have finished") as caught,
    ):
        prepare(make_request(source, "/target", **shape))
    assert caught.value.expected == "parallelism 2, max parallelism 32", "not the advised shape"
    printed_options = str(caught.value.advice).partition("operators: ")[2].partition(";")[0].split()
    options: dict[str, list[str]] = {"--parallelism": [], "--max-parallelism": []}
    for option, value in zip(printed_options[::2], printed_options[1::2], strict=True):
        options[option].append(value)
    advised_plan = prepare(
        make_request(source, "/target", options["--parallelism"], max_parallelism=options["--max-parallelism"])
    ).plan
    short_id = operator_id_of_uid("short")
    assert {o.operator_id: (o.new_parallelism, o.new_max_parallelism) for o in advised_plan.operators} == {
        o.operator_id: (2 if o.operator_id == short_id else 3, 32) for o in advised_plan.operators
    }


def test_advised_request_leaves_out_partly_finished_keyed_operators() -> None:
    keyed = (own_stream(0, 2, 128, Framing.CANONICAL, HEADER),)
    source = snapshot(operator("ended", finished=(1,), keyed=keyed), operator("it's", keyed=()), operator("rest"))
    request = replace(make_request("/source", "/target", ["rest=4"]), max_parallelism={"": 64})
    with pytest.raises(UnsupportedError) as caught:
        make_plan(source, request)
    options = "--parallelism rest=4 --max-parallelism 'it'\"'\"'s=64' --max-parallelism rest=64"
    assert str(caught.value.advice).startswith(f"name only the other operators: {options}; or")
    assert "let Flink itself" not in str(caught.value.advice)


def test_plan_warns_of_max_parallelism_1_and_that_flink_can_rescale_itself() -> None:
    streams = tuple(own_stream(i, 2, 128, Framing.CANONICAL) for i in range(2))
    source = snapshot(operator("counts", keyed=streams), operator("all", 1, 1))
    (single_warning, native_warning) = make_plan(source, make_request("/source", "/target", ["4"])).warnings
    assert single_warning == "all keeps max parallelism 1: Flink sets it for operators that can only have one subtask"
    assert "Flink can do itself" in native_warning


def test_sizes_of_a_stream_come_from_its_pieces() -> None:
    keyed_stream = TranslatedKeyGroups(
        subtask=0,
        pieces=(Piece(None, 0, 5), Piece(1, 0, 30, 0)),
        inline=False,
        first_key_group=7,
        key_groups=(10, -1, 0, 20),
        compressed=False,
    )
    assert (keyed_stream.size, keyed_stream.header_size, keyed_stream.key_group_range) == (35, 5, KeyGroupRange(7, 10))
    header = operator_header((operator_list("l", mode="UNION"),))
    source = snapshot(operator("lists", 1, elements=(element_stream(0, {"l": (DistributionMode.UNION, 3)}, header),)))
    (stream,) = make_plan(source, make_request("/source", "/target")).operators[0].streams
    assert (stream.size, stream.header_size) == (len(header) + 30, len(header))


def test_bytes_are_counted_by_subtask_and_by_slot() -> None:
    streams = tuple(own_stream(i, 2, 4, Framing.CANONICAL, b"head") for i in range(2))
    plan = make_plan(snapshot(operator("counts", 2, 4, keyed=streams)), make_request("/source", "/target", ["3"]))
    (planned,) = plan.operators
    assert planned.new_keyed_bytes == (24, 14, 14)
    assert (planned.bytes_of(Slot.KEYED), planned.bytes_of(Slot.OPERATOR)) == (52, 0)
    assert plan.bytes_moved == 52


@pytest.mark.parametrize("has_keyed_state", [False, True])
def test_finished_subtasks_with_keyed_state_keep_their_max_parallelism(has_keyed_state: bool) -> None:
    keyed = (own_stream(0, 2, 128, Framing.CANONICAL, HEADER),) if has_keyed_state else ()
    source, request = snapshot(operator("counts", finished=(1,), keyed=keyed)), make_request("/source", "/target")
    request = replace(request, max_parallelism={"": 64})
    if has_keyed_state:
        with pytest.raises(UnsupportedError, match="have finished"):
            make_plan(source, request)
    else:
        assert make_plan(source, request).operators[0].new_max_parallelism == 64
