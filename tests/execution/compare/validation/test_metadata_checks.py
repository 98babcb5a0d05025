"""Everything in `_metadata` that a rescale does not change is compared. The snapshots are made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rescale.execution.compare.validation.coverage import (
    check_candidate,
    check_certified,
    check_directory,
    check_metadata,
    check_planned,
    check_references,
)
from rescale.execution.compare.validation.headers import check_equal
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.checkpoint_metadata import MasterState, OperatorState, Subtask, SubtaskState
from rescale.flink.metadata.handles import InlineStream, KeyGroupsHandle, SingleChannelHandle
from rescale.flink.metadata.properties import savepoint_properties
from rescale.planning.request.operator_shapes import Shape
from rescale.runstate.certificate import COMPLETE_VERDICT, Certificate, CertifiedOperator
from rescale.snapshot.keyed_state import Changelog, KeyedStream, OtherKeyed
from rescale.snapshot.model import Operator, Snapshot
from rescale.storage.store import Pin
from rescale.text.errors import IntegrityError, RequestError
from support.synthetic import RAW_TAG, database, operator, own_stream, snapshot

STATEFUL, STATELESS = 0, 1
CANONICAL, NATIVE = savepoint_properties(is_canonical=True), savepoint_properties(is_canonical=False)


def streams(framing: Framing, parallelism: int) -> tuple[KeyedStream, ...]:
    return tuple(own_stream(i, parallelism, 128, framing) for i in range(parallelism))


def savepoint(parallelism: int = 2, *, properties: bytes = CANONICAL, **more: Any) -> Snapshot:
    """Return a savepoint with two operators, of which only one has keyed state."""
    keyed = more if more else {"keyed": streams(Framing.CANONICAL, parallelism)}
    return with_properties(snapshot(operator("a", parallelism, **keyed), operator("b", parallelism)), properties)


def with_properties(original: Snapshot, properties: bytes) -> Snapshot:
    return replace(original, metadata=replace(original.metadata, properties=properties))


def edit_operator(original: Snapshot, index: int, change: Callable[[Operator], Operator]) -> Snapshot:
    operators = tuple(change(unchanged) if i == index else unchanged for i, unchanged in enumerate(original.operators))
    return replace(original, operators=operators)


def entry_change(index: int, **fields: Any) -> Callable[[Snapshot], Snapshot]:
    """Return a change of fields in the entry of an operator."""

    def change(original: Snapshot) -> Snapshot:
        return edit_operator(
            original, index, lambda unchanged: replace(unchanged, entry=replace(unchanged.entry, **fields))
        )

    return change


def metadata_change(**fields: Any) -> Callable[[Snapshot], Snapshot]:
    return lambda original: replace(original, metadata=replace(original.metadata, **fields))


def operator_change(**fields: Any) -> Callable[[Snapshot], Snapshot]:
    """Return a change of fields of the stateless operator other than its entry."""
    return lambda original: edit_operator(original, STATELESS, lambda unchanged: replace(unchanged, **fields))


def with_first_finished(original: Snapshot) -> Snapshot:
    def change(entry: OperatorState) -> OperatorState:
        first, *rest = entry.subtasks
        return replace(entry, subtasks=(replace(first, finished=True, state=None), *rest))

    return edit_operator(original, STATELESS, lambda unchanged: replace(unchanged, entry=change(unchanged.entry)))


OTHER_HANDLE = OtherKeyed(0, KeyGroupsHandle(7, 0, (0,), InlineStream("x", b"")), 0)
EMPTY_CHANGELOG = Changelog(0, streams(Framing.CANONICAL, 1)[0].key_groups, (), (), 0, b"", None)
SUBTASKS_IN_FLIGHT = (
    Subtask(0, False, SubtaskState(output_channels=(SingleChannelHandle(0, 0, 0, (0,), 0, InlineStream("x", b"x")),))),
)

FAULTS: dict[str, tuple[Callable[[Snapshot], Snapshot], str]] = {
    "version": (metadata_change(version=5), "metadata version"),
    "checkpoint id": (metadata_change(checkpoint_id=2), "checkpoint id"),
    "master states": (metadata_change(masters=(MasterState(0, "hook", b""),)), "master states"),
    "no properties": (metadata_change(properties=b""), "properties of another kind of snapshot"),
    "properties of another kind": (metadata_change(properties=NATIVE), "properties of another kind of snapshot"),
    "files missing": (
        lambda original: replace(original, missing_files=("/target/1",)),
        "files of the result are missing",
    ),
    "an operator lost": (lambda original: replace(original, operators=original.operators[:1]), "operators"),
    "operators exchanged": (lambda original: replace(original, operators=original.operators[::-1]), "operators"),
    "name": (entry_change(STATELESS, name="other"), "name"),
    "uid": (entry_change(STATELESS, uid="other"), "uid"),
    "coordinator": (entry_change(STATELESS, coordinator=InlineStream("c", b"x")), "coordinator"),
    "fully finished": (entry_change(STATELESS, fully_finished=True), "fully finished"),
    "a finished subtask": (with_first_finished, "finished subtasks"),
    "keyed state of another kind": (
        operator_change(other_keyed=(OTHER_HANDLE,)),
        "a kind of state that a rescale never writes",
    ),
    "a changelog": (operator_change(changelogs=(EMPTY_CHANGELOG,)), "a kind of state that a rescale never writes"),
    "channel state": (operator_change(channel_bytes=1), "a kind of state that a rescale never writes"),
    "channel state of unknown size": (
        entry_change(STATELESS, subtasks=SUBTASKS_IN_FLIGHT),
        "a kind of state that a rescale never writes",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_changed_metadata_is_found(fault: str) -> None:
    source = savepoint()
    check_metadata(source, savepoint(3))
    change, message = FAULTS[fault]
    with pytest.raises(IntegrityError, match=message) as caught:
        check_metadata(source, change(savepoint(3)))
    assert caught.value.exit_code == 4


def test_finished_subtask_that_runs_in_the_result_is_found() -> None:
    source = with_first_finished(savepoint())
    check_metadata(source, with_first_finished(savepoint()))
    with pytest.raises(IntegrityError, match="finished subtasks"):
        check_metadata(source, savepoint())


def test_order_of_listed_subtasks_is_ignored() -> None:
    def with_finished(*indices: int) -> Callable[[Snapshot], Snapshot]:
        subtasks = tuple(Subtask(i, True, None) for i in indices)
        return lambda original: entry_change(STATELESS, subtasks=subtasks)(original)

    check_metadata(with_finished(0, 1)(savepoint()), with_finished(1, 0)(savepoint()))
    with pytest.raises(IntegrityError, match="finished subtasks"):
        check_metadata(with_finished(0, 1)(savepoint()), with_finished(1)(savepoint()))


@pytest.mark.parametrize("max_parallelism", [1, 2, 128])
def test_max_parallelism_of_a_stateless_operator_may_change(max_parallelism: int) -> None:
    """A request may name the operator; `check_planned` compares the shape with the request."""
    source = entry_change(STATELESS, parallelism=1, max_parallelism=1)(savepoint())
    check_metadata(source, entry_change(STATELESS, parallelism=1, max_parallelism=max_parallelism)(savepoint()))
    check_metadata(savepoint(), entry_change(STATELESS, max_parallelism=256)(savepoint()))


@pytest.mark.parametrize(
    ("keyed", "is_native"),
    [
        ({"keyed": streams(Framing.CANONICAL, 2)}, False),
        ({"keyed": streams(Framing.HEAP, 2)}, True),
        ({"databases": (database(0, 1, 128, 100),)}, True),
        ({"raw_keyed": streams(Framing.RAW, 2)}, False),
        ({"channel_bytes": 0}, False),
    ],
)
def test_properties_must_match_the_kind_of_keyed_state(keyed: dict[str, Any], is_native: bool) -> None:
    result, right_properties, wrong_properties = (
        savepoint(**keyed),
        *((NATIVE, CANONICAL) if is_native else (CANONICAL, NATIVE)),
    )
    for source_properties in (CANONICAL, NATIVE):
        source = savepoint(properties=source_properties, **keyed)
        check_metadata(source, with_properties(result, right_properties))
        with pytest.raises(IntegrityError, match="properties of another kind of snapshot") as caught:
            check_metadata(source, with_properties(result, wrong_properties))
        assert ("native" if is_native else "canonical") in str(caught.value.expected)


def test_one_native_stream_makes_the_result_native() -> None:
    mixed_streams = (
        own_stream(0, 2, 128, Framing.CANONICAL),
        replace(own_stream(1, 2, 128, Framing.HEAP), handle_tag=RAW_TAG),
    )
    check_metadata(savepoint(keyed=mixed_streams), savepoint(keyed=mixed_streams, properties=NATIVE))
    with pytest.raises(IntegrityError, match="properties of another kind of snapshot"):
        check_metadata(savepoint(keyed=mixed_streams), savepoint(keyed=mixed_streams))


def test_result_has_no_properties_if_the_source_has_none() -> None:
    """Metadata below version 4 has no properties."""
    source = savepoint(properties=b"")
    check_metadata(source, source)
    with pytest.raises(IntegrityError, match="properties of another kind of snapshot"):
        check_metadata(source, savepoint())


def test_candidate_that_differs_from_the_written_one_is_refused() -> None:
    result = savepoint()
    check_candidate(result, result.metadata_sha256)
    with pytest.raises(IntegrityError, match="differs from what was written") as caught:
        check_candidate(result, "0" * 64)
    assert caught.value.path == result.metadata_uri


def test_published_result_with_other_shapes_is_refused() -> None:
    result = savepoint(3)
    shapes = {
        operator.operator_id: Shape(operator.parallelism, operator.max_parallelism) for operator in result.operators
    }
    check_planned(result, shapes)
    with pytest.raises(RequestError, match="the target holds another published result") as caught:
        check_planned(entry_change(STATEFUL, max_parallelism=64)(result), shapes)
    assert caught.value.path == result.metadata_uri
    assert caught.value.expected == "parallelism 3, max parallelism 128"
    assert caught.value.found == "parallelism 3, max parallelism 64"


def test_metadata_that_differs_from_the_certificate_is_refused() -> None:
    result = savepoint(3)
    check_certified(result, certificate_for(result))
    for change in (entry_change(STATELESS, parallelism=4), entry_change(STATEFUL, max_parallelism=64)):
        with pytest.raises(IntegrityError, match="does not have the certified shape"):
            check_certified(change(result), certificate_for(result))
    with pytest.raises(IntegrityError, match="does not have the certified shape") as caught:
        check_certified(entry_change(STATELESS, operator_id="0" * 32)(result), certificate_for(result))
    assert caught.value.expected == "no such operator"
    with pytest.raises(IntegrityError, match="is not the certified one"):
        check_certified(replace(result, metadata_bytes=b"other"), certificate_for(result))


SOURCE_FILE = "/source/shared.sst"


def snapshot_with_file(uri: str, pin: Pin) -> Snapshot:
    return replace(snapshot(directory="/target"), files=(("/elsewhere/candidate", Pin(9)), (uri, pin)))


def test_reference_to_a_file_outside_source_and_target_is_refused() -> None:
    first_pin = Pin(10, mtime_ns=7)
    source = replace(snapshot(), files=(("/source/_metadata", Pin(9)), (SOURCE_FILE, first_pin)))
    check_references(source, snapshot_with_file(SOURCE_FILE, first_pin))
    check_references(source, snapshot_with_file("/target/own.sst", Pin(11)))
    for uri, pin in (
        (SOURCE_FILE, Pin(11, mtime_ns=7)),
        (SOURCE_FILE, Pin(10, mtime_ns=8)),
        (SOURCE_FILE + "x", first_pin),
        ("/target2/own.sst", first_pin),
        ("/elsewhere/own.sst", first_pin),
    ):
        with pytest.raises(IntegrityError, match="does not belong to the source") as caught:
            check_references(source, snapshot_with_file(uri, pin))
        assert caught.value.path == uri


def test_reference_to_a_file_of_the_base_is_one_to_the_planned_version() -> None:
    planned_pins = {"/base/old.sst": Pin(10, mtime_ns=7)}
    check_references(snapshot(), snapshot_with_file("/base/old.sst", Pin(10, mtime_ns=7)), planned_pins)
    for uri, pin in (("/base/old.sst", Pin(10, mtime_ns=8)), ("/base/other.sst", Pin(10, mtime_ns=7))):
        with pytest.raises(IntegrityError, match="does not belong to the source or to a base"):
            check_references(snapshot(), snapshot_with_file(uri, pin), planned_pins)


def test_surplus_files_in_the_target_are_refused() -> None:
    result = snapshot_with_file("/target/own.sst", Pin(10))
    for listed_uris in ([], ["/target/own.sst"], ["/target/own.sst", "/target/_metadata"]):
        check_directory(result, listed_uris)
    with pytest.raises(IntegrityError, match="do not belong to the result") as caught:
        check_directory(result, ["/target/own.sst", "/target/_metadata", "/target/more", "/target/and-more"])
    assert caught.value.found == "2 other files, such as /target/more"


def test_unequal_values_are_both_named() -> None:
    check_equal("number", 1, 1, "operator")
    with pytest.raises(IntegrityError, match="number: result and source differ") as caught:
        check_equal("number", 1, 2, "operator")
    assert (caught.value.expected, caught.value.found, caught.value.operator) == ("1", "2", "operator")


def certificate_for(result: Snapshot) -> Certificate:
    """Return a certificate that names the metadata and the shapes of this result."""
    operators = tuple(
        CertifiedOperator(
            operator.operator_id, operator.label, operator.parallelism, operator.max_parallelism, 0, 0, 0, 0, "0", None
        )
        for operator in result.operators
    )
    return Certificate(
        verdict=COMPLETE_VERDICT,
        proves="",
        does_not_prove=None,
        digests="",
        source="/source",
        source_metadata_sha256="",
        target=result.directory,
        candidate_sha256=result.metadata_sha256,
        plan=None,
        warnings=(),
        bytes=0,
        operators=operators,
        files=(),
        start="",
    )
