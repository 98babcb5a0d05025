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


def with_states(uid: str, *names: str) -> Operator:
    """Return an operator with two elements of each state."""
    listed = read_keyed_header(keyed_header(*map(keyed_state, names)), "").states
    header = OperatorStateHeader(6, compressed=False, list_states=listed, broadcast_states=())
    return operator(uid, elements=(element_stream(0, dict.fromkeys(names, (SPLIT, 2)), header),))


ONE, TWO, THREE = with_states("one", "a", "b"), with_states("two", "a", "c"), operator("three")
SOURCE = snapshot(ONE, TWO, THREE)


def renamed(uid: str, new: str, *, known: bool = True) -> Renamed:
    return Renamed(operator_id_of_uid(uid), uid, operator_id_of_uid(new), new, new if known else "")


def dropped(of: Operator, name: str) -> DroppedState:
    (lost,) = states_to_drop(of, name)
    return lost


def refused(result: Snapshot, surgery: Surgery, message: str, source: Snapshot = SOURCE) -> IntegrityError:
    with pytest.raises(IntegrityError, match=message) as caught:
        check_declared(source, result, surgery)
    return caught.value


SURGERIES = {
    "nothing": Surgery(),
    "renamed": Surgery((renamed("one", "uno"), renamed("three", "tre"))),
    "renamed to an id alone": Surgery((renamed("one", "uno", known=False),)),
    "exchanged": Surgery((renamed("one", "two"), renamed("two", "one"))),
    "dropped": Surgery(dropped=(as_dropped(ONE), as_dropped(THREE))),
    "one dropped and another in its place": Surgery((renamed("two", "one"),), (as_dropped(ONE),)),
    "states dropped": Surgery(dropped_states=(dropped(ONE, "a"), dropped(TWO, "c"))),
    "a state of one that is renamed": Surgery((renamed("one", "uno"),), dropped_states=(dropped(ONE, "a"),)),
    "a state whose files were looked at": Surgery(dropped_states=(replace(dropped(ONE, "a"), stored_bytes=9),)),
    "a state of one that is dropped": Surgery(dropped=(as_dropped(ONE),), dropped_states=(dropped(ONE, "a"),)),
}
OF_OPERATORS = ("nothing", "renamed", "exchanged", "dropped", "one dropped and another in its place")


@pytest.mark.parametrize("version", [FIRST_VERSION_WITH_NAMES - 1, FIRST_VERSION_WITH_NAMES])
@pytest.mark.parametrize("what", SURGERIES)
def test_result_of_declared_surgery_passes_and_of_other_surgery_is_refused(what: str, version: int) -> None:
    """The metadata holds uids or, in older versions, none."""
    source = replace(SOURCE, metadata=replace(SOURCE.metadata, version=version))
    check_declared(source, apply_surgery(source, SURGERIES[what]), SURGERIES[what])
    for other in OF_OPERATORS:
        if what in OF_OPERATORS and other != what:
            refused(
                apply_surgery(source, SURGERIES[other]),
                SURGERIES[what],
                "in operators that were not declared as renamed or dropped",
                source,
            )


def test_undeclared_operators_of_result_are_named() -> None:
    error = refused(
        apply_surgery(SOURCE, SURGERIES["exchanged"]),
        SURGERIES["renamed"],
        "in operators that were not declared as renamed or dropped",
    )
    assert (error.expected, error.found) == ("uno, tre", "one, three")
    assert "--rename OLD=NEW, --drop UID" in str(error.advice)
    message = "in operators that were not declared as renamed or dropped"
    for result, expected, actual in (
        ("dropped", "one, three", "none of these"),
        ("exchanged", "only the source's operators, in their order", "the same operators in another order"),
    ):
        error = refused(apply_surgery(SOURCE, SURGERIES[result]), Surgery(), message)
        assert (error.expected, error.found) == (expected, actual)
    error = refused(SOURCE, SURGERIES["dropped"], message)
    assert (error.expected, error.found) == ("only the source's operators, in their order", "one, three")


@pytest.mark.parametrize(
    ("surgery", "message"),
    [
        (Surgery((renamed("nobody", "uno"), renamed("none", "tre"))), "declared as renamed"),
        (Surgery(dropped=(as_dropped(operator("nobody")), as_dropped(operator("none")))), "declared as dropped"),
        (
            Surgery(dropped_states=(dropped(with_states("nobody", "a"), "a"), dropped(with_states("none", "a"), "a"))),
            "declared as having lost a state",
        ),
    ],
)
def test_declared_operator_missing_in_source_is_named(surgery: Surgery, message: str) -> None:
    error = refused(SOURCE, surgery, message)
    assert error.operator == min(map(operator_id_of_uid, ("nobody", "none")))


@pytest.mark.parametrize(
    "lost",
    [
        replace(as_dropped(ONE), bytes=as_dropped(ONE).bytes + 1),
        replace(as_dropped(ONE), states=as_dropped(ONE).states[1:]),
        replace(as_dropped(ONE), bytes=as_dropped(ONE).bytes - 1, states=(NOT_READ,)),
    ],
)
def test_dropped_operator_that_differs_from_its_declaration_is_refused(lost: Dropped) -> None:
    surgery = Surgery(dropped=(lost,))
    assert (
        refused(apply_surgery(SOURCE, surgery), surgery, "of the dropped operator: result and source differ").operator
        == "one"
    )


def test_files_of_dropped_operator_may_vanish_or_appear_after_planning() -> None:
    """If they do, only one side knows the operator's states; its handles still say how many bytes they have."""
    lost, gone = as_dropped(ONE), replace(ONE, element_streams=(), is_whole=False)
    assert NOT_READ not in lost.states
    assert as_dropped(gone) == replace(lost, states=(NOT_READ,))
    source = snapshot(gone, TWO, THREE)
    for before, declared in ((SOURCE, as_dropped(gone)), (source, lost), (source, as_dropped(gone))):
        surgery = Surgery(dropped=(declared,))
        check_declared(before, apply_surgery(before, surgery), surgery)
        more = Surgery(dropped=(replace(declared, bytes=declared.bytes + 1),))
        refused(apply_surgery(before, more), more, "of the dropped operator: result and source differ", before)


def test_declared_id_that_is_not_the_hash_of_its_uid_is_refused() -> None:
    wrong = replace(renamed("one", "uno"), uid="due")
    surgery = Surgery((wrong,))
    error = refused(apply_surgery(SOURCE, surgery), surgery, "id of the uid 'due': result and source differ")
    assert (error.operator, error.expected) == ("one", operator_id_of_uid("due"))


def named(snapshot: Snapshot, *uids: str) -> Snapshot:
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
    source = named(SOURCE, "one", "two", "three")
    result = apply_surgery(source, surgery)
    check_declared(source, result, surgery)
    refused(named(result, *uids), surgery, "uid: result and source differ", source)
    old = replace(source, metadata=replace(source.metadata, version=FIRST_VERSION_WITH_NAMES - 1))
    check_declared(old, named(result, *uids), surgery)


@pytest.mark.parametrize(
    "changed", [{"elements": 3}, {"bytes": 1}, {"of_bytes": 1}, {"name": "c"}, {"type": "UNION"}, {"label": "uno"}]
)
def test_declared_dropped_state_that_differs_from_the_source_is_refused(changed: dict[str, object]) -> None:
    right = dropped(ONE, "a")
    surgery = Surgery(dropped_states=(replace(right, **changed),))  # type: ignore[arg-type]
    error = refused(SOURCE, surgery, "the source does not have a state that was declared as dropped")
    assert error.found == ("()" if "name" in changed else str((right,)))


@pytest.mark.parametrize("what", ["states dropped", "a state of one that is renamed"])
def test_dropped_state_that_is_still_in_the_result_is_refused(what: str) -> None:
    surgery = SURGERIES[what]
    result = apply_surgery(SOURCE, replace(surgery, dropped_states=surgery.dropped_states[1:]))
    error = refused(result, surgery, "the result still has a state that was declared as dropped")
    assert (error.operator, error.state) == ("one", "a")
