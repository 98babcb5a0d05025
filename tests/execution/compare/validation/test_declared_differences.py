"""A result has the operators and states that the declared surgery leaves, and no others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rescale.execution.compare.validation.declared_differences import check_declared
from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.metadata.checkpoint_metadata import FIRST_VERSION_WITH_NAMES
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_id import operator_id_of_uid
from rescale.flink.operator_state import OperatorStateHeader
from rescale.snapshot.dropped_states import DroppedState, states_to_drop
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import NOT_READ, Dropped, Renamed, Surgery, apply_surgery, as_dropped
from rescale.text.errors import IntegrityError
from support.snapshot_bytes import keyed_header, keyed_state
from support.synthetic import element_stream, operator, snapshot

SPLIT = DistributionMode.SPLIT_DISTRIBUTE


def operator_with_states(uid: str, *names: str) -> Operator:
    """Return an operator with two elements of each state."""
    states = read_keyed_header(keyed_header(*map(keyed_state, names)), "").states
    header = OperatorStateHeader(6, compressed=False, list_states=states, broadcast_states=())
    return operator(uid, elements=(element_stream(0, dict.fromkeys(names, (SPLIT, 2)), header),))


ONE, TWO, THREE = operator_with_states("one", "a", "b"), operator_with_states("two", "a", "c"), operator("three")
SOURCE = snapshot(ONE, TWO, THREE)


def renamed(uid: str, new: str, *, is_uid_known: bool = True) -> Renamed:
    return Renamed(operator_id_of_uid(uid), uid, operator_id_of_uid(new), new, new if is_uid_known else "")


def dropped_state(from_operator: Operator, name: str) -> DroppedState:
    (state,) = states_to_drop(from_operator, name)
    return state


def assert_refused(result: Snapshot, surgery: Surgery, message: str, source: Snapshot = SOURCE) -> IntegrityError:
    with pytest.raises(IntegrityError, match=message) as caught:
        check_declared(source, result, surgery)
    return caught.value


SURGERIES = {
    "nothing": Surgery(),
    "renamed": Surgery((renamed("one", "uno"), renamed("three", "tre"))),
    "renamed to an id alone": Surgery((renamed("one", "uno", is_uid_known=False),)),
    "exchanged": Surgery((renamed("one", "two"), renamed("two", "one"))),
    "dropped": Surgery(dropped=(as_dropped(ONE), as_dropped(THREE))),
    "one dropped and another in its place": Surgery((renamed("two", "one"),), (as_dropped(ONE),)),
    "states dropped": Surgery(dropped_states=(dropped_state(ONE, "a"), dropped_state(TWO, "c"))),
    "a state of one that is renamed": Surgery((renamed("one", "uno"),), dropped_states=(dropped_state(ONE, "a"),)),
    "a state whose files were looked at": Surgery(dropped_states=(replace(dropped_state(ONE, "a"), stored_bytes=9),)),
    "a state of one that is dropped": Surgery(dropped=(as_dropped(ONE),), dropped_states=(dropped_state(ONE, "a"),)),
}
OPERATOR_SURGERIES = ("nothing", "renamed", "exchanged", "dropped", "one dropped and another in its place")


@pytest.mark.parametrize("version", [FIRST_VERSION_WITH_NAMES - 1, FIRST_VERSION_WITH_NAMES])
@pytest.mark.parametrize("surgery_name", SURGERIES)
def test_result_of_declared_surgery_passes_and_of_other_surgery_is_refused(surgery_name: str, version: int) -> None:
    """The metadata holds uids or, in older versions, none."""
    source = replace(SOURCE, metadata=replace(SOURCE.metadata, version=version))
    check_declared(source, apply_surgery(source, SURGERIES[surgery_name]), SURGERIES[surgery_name])
    for other_name in OPERATOR_SURGERIES:
        if surgery_name in OPERATOR_SURGERIES and other_name != surgery_name:
            assert_refused(
                apply_surgery(source, SURGERIES[other_name]),
                SURGERIES[surgery_name],
                "in operators that were not declared as renamed or dropped",
                source,
            )


def test_undeclared_operators_of_result_are_named() -> None:
    error = assert_refused(
        apply_surgery(SOURCE, SURGERIES["exchanged"]),
        SURGERIES["renamed"],
        "in operators that were not declared as renamed or dropped",
    )
    assert (error.expected, error.found) == ("uno, tre", "one, three")
    assert "--rename OLD=NEW, --drop UID" in str(error.advice)
    message = "in operators that were not declared as renamed or dropped"
    for applied_name, expected, actual in (
        ("dropped", "one, three", "none of these"),
        ("exchanged", "only the source's operators, in their order", "the same operators in another order"),
    ):
        error = assert_refused(apply_surgery(SOURCE, SURGERIES[applied_name]), Surgery(), message)
        assert (error.expected, error.found) == (expected, actual)
    error = assert_refused(SOURCE, SURGERIES["dropped"], message)
    assert (error.expected, error.found) == ("only the source's operators, in their order", "one, three")


@pytest.mark.parametrize(
    ("surgery", "message"),
    [
        (Surgery((renamed("nobody", "uno"), renamed("none", "tre"))), "declared as renamed"),
        (Surgery(dropped=(as_dropped(operator("nobody")), as_dropped(operator("none")))), "declared as dropped"),
        (
            Surgery(
                dropped_states=(
                    dropped_state(operator_with_states("nobody", "a"), "a"),
                    dropped_state(operator_with_states("none", "a"), "a"),
                )
            ),
            "declared as having lost a state",
        ),
    ],
)
def test_declared_operator_missing_in_source_is_named(surgery: Surgery, message: str) -> None:
    error = assert_refused(SOURCE, surgery, message)
    assert error.operator == min(map(operator_id_of_uid, ("nobody", "none")))


@pytest.mark.parametrize(
    "declared",
    [
        replace(as_dropped(ONE), bytes=as_dropped(ONE).bytes + 1),
        replace(as_dropped(ONE), states=as_dropped(ONE).states[1:]),
        replace(as_dropped(ONE), bytes=as_dropped(ONE).bytes - 1, states=(NOT_READ,)),
    ],
)
def test_dropped_operator_that_differs_from_its_declaration_is_refused(declared: Dropped) -> None:
    surgery = Surgery(dropped=(declared,))
    assert (
        assert_refused(
            apply_surgery(SOURCE, surgery), surgery, "of the dropped operator: result and source differ"
        ).operator
        == "one"
    )


def test_files_of_dropped_operator_may_vanish_or_appear_after_planning() -> None:
    """If they do, only one side knows the operator's states; its handles still say how many bytes they have."""
    whole_declaration, unread_operator = as_dropped(ONE), replace(ONE, element_streams=(), is_whole=False)
    assert NOT_READ not in whole_declaration.states
    assert as_dropped(unread_operator) == replace(whole_declaration, states=(NOT_READ,))
    source = snapshot(unread_operator, TWO, THREE)
    for before, declared in (
        (SOURCE, as_dropped(unread_operator)),
        (source, whole_declaration),
        (source, as_dropped(unread_operator)),
    ):
        surgery = Surgery(dropped=(declared,))
        check_declared(before, apply_surgery(before, surgery), surgery)
        larger = Surgery(dropped=(replace(declared, bytes=declared.bytes + 1),))
        assert_refused(
            apply_surgery(before, larger), larger, "of the dropped operator: result and source differ", before
        )


def test_declared_id_that_is_not_the_hash_of_its_uid_is_refused() -> None:
    wrong_rename = replace(renamed("one", "uno"), uid="due")
    surgery = Surgery((wrong_rename,))
    error = assert_refused(apply_surgery(SOURCE, surgery), surgery, "id of the uid 'due': result and source differ")
    assert (error.operator, error.expected) == ("one", operator_id_of_uid("due"))


def with_uids(snapshot: Snapshot, *uids: str) -> Snapshot:
    """Return the snapshot with these uids in metadata of a version that holds them."""
    entries = tuple(replace(operator, uid=uid) for operator, uid in zip(snapshot.metadata.operators, uids, strict=True))
    operators = tuple(
        replace(operator, entry=entry) for operator, entry in zip(snapshot.operators, entries, strict=True)
    )
    metadata = replace(snapshot.metadata, version=FIRST_VERSION_WITH_NAMES, operators=entries)
    return replace(snapshot, metadata=metadata, operators=operators)


@pytest.mark.parametrize(
    "uids", [("one", "two", "three"), ("uno", "zwei", "three"), ("uno", "two", ""), ("", "two", "three")]
)
def test_uids_in_metadata_are_the_declared_ones_and_all_others_unchanged(uids: Sequence[str]) -> None:
    surgery = Surgery((renamed("one", "uno"),))
    source = with_uids(SOURCE, "one", "two", "three")
    result = apply_surgery(source, surgery)
    check_declared(source, result, surgery)
    assert_refused(with_uids(result, *uids), surgery, "uid: result and source differ", source)
    old = replace(source, metadata=replace(source.metadata, version=FIRST_VERSION_WITH_NAMES - 1))
    check_declared(old, with_uids(result, *uids), surgery)


@pytest.mark.parametrize(
    "changed_fields",
    [{"elements": 3}, {"bytes": 1}, {"of_bytes": 1}, {"name": "c"}, {"type": "UNION"}, {"label": "uno"}],
)
def test_declared_dropped_state_that_differs_from_the_source_is_refused(changed_fields: dict[str, object]) -> None:
    right_state = dropped_state(ONE, "a")
    surgery = Surgery(dropped_states=(replace(right_state, **changed_fields),))  # type: ignore[arg-type]
    error = assert_refused(SOURCE, surgery, "the source does not have a state that was declared as dropped")
    assert error.found == ("()" if "name" in changed_fields else str((right_state,)))


@pytest.mark.parametrize("surgery_name", ["states dropped", "a state of one that is renamed"])
def test_dropped_state_that_is_still_in_the_result_is_refused(surgery_name: str) -> None:
    surgery = SURGERIES[surgery_name]
    result = apply_surgery(SOURCE, replace(surgery, dropped_states=surgery.dropped_states[1:]))
    error = assert_refused(result, surgery, "the result still has a state that was declared as dropped")
    assert (error.operator, error.state) == ("one", "a")
