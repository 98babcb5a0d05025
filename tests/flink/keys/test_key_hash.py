"""Hashes of keys: known, named, or found from keys that lie in their key groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.keys import machine
from rescale.flink.keys.java_hash import ERROR_TEXTS, SUBCLASS
from rescale.flink.keys.key_hash import KeyHash, candidate_hashes, choose_hash, known_hash, named_hash, refuse_no_hash
from rescale.text.errors import RequestError, SnapshotError, UnsupportedError
from support.java_composites import CaseClass, Pojo, Tuple
from support.java_values import HASHABLE_LEAVES, JavaType
from support.snapshot_bytes import BASE, INT, LONG, i32, kryo, list_of, parsed, pojo, simple, utf
from support.snapshot_bytes import snapshot as snapshot_of

INTEGER, TEXT = HASHABLE_LEAVES["Int"], HASHABLE_LEAVES["String"]
ENUM = snapshot_of(BASE + "EnumSerializer$EnumSerializerSnapshot", 3, utf("com.example.Colour") + i32(1) + utf("RED"))
KRYO = kryo("com.example.Money")


def order_type(start: int, factor: int, names: str, null_hash: int = 0) -> Pojo:
    return Pojo({"id": INTEGER, "town": TEXT}, start, factor, names.split(), null_hash)


TOWNS = [None, "Ulm", "Oslo", "Bern", "Bari", "Rome", "Lyon", "Cork", "Kiel", "Bonn"]
ORDERS = [(number, None if town is None else tuple(town.encode())) for number in range(40) for town in TOWNS]


def chosen_hash(
    java_type: JavaType, values: list[object], max_parallelism: int = 128, snapshot: bytes = b""
) -> KeyHash:
    return choose_hash(*choice_arguments(java_type, values, max_parallelism, snapshot))


def choice_arguments(
    java_type: JavaType, values: list[object], max_parallelism: int = 128, snapshot: bytes = b""
) -> Any:
    """Return the arguments of `choose_hash` for these keys."""
    keys = list(map(java_type.write, values))
    limits = np.cumsum([len(key) + 1 for key in keys], dtype=np.int64)
    starts = limits - np.array([len(key) + 1 for key in keys], dtype=np.int64)
    groups = [key_group_of_hash(java_type.code(value), max_parallelism) for value in values]
    data = np.frombuffer(b"".join(key + b"\0" for key in keys), np.uint8)
    serializer = parsed(snapshot or java_type.snapshot)
    return serializer, data, starts, limits, np.array(groups, np.int64), max_parallelism


def test_known_hash_is_chosen_without_formulas() -> None:
    assert known_hash(parsed(LONG)) == chosen_hash(INTEGER, [1], 2, snapshot=LONG)
    known = named_hash(parsed(LONG), "java")
    assert (known.name, known.program.hashable) == ("java", True)


@pytest.mark.parametrize("data", [pojo({"id": INT}), ENUM, KRYO, CaseClass([INTEGER]).snapshot])
def test_users_own_class_has_no_known_hash(data: bytes) -> None:
    assert known_hash(parsed(data)) is None


@pytest.mark.parametrize(
    ("java_type", "name"),
    [
        (order_type(1, 31, "id town"), "objects-hash(id,town)"),
        (order_type(1, 31, "town id"), "objects-hash(town,id)"),
        (order_type(0, 31, "town id"), "record(town,id)"),
        (order_type(0, 31, "town"), "record(town)"),
        (order_type(1, 59, "town id", null_hash=43), "lombok(town,id)"),
        (order_type(1, 59, "town id"), "1x59(town,id)"),
        (order_type(17, 31, "id town"), "17x31(id,town)"),
        (order_type(17, 37, "id town"), "17x37(id,town)"),
        (order_type(7, 31, "id town"), "7x31(id,town)"),
    ],
)
@pytest.mark.parametrize("max_parallelism", [64, 97, 4096])
def test_formula_that_fits_the_keys_is_chosen(java_type: Pojo, name: str, max_parallelism: int) -> None:
    chosen = chosen_hash(java_type, ORDERS, max_parallelism)
    assert chosen.name == name
    assert chosen == named_hash(parsed(java_type.snapshot), name)


def test_formula_of_a_nested_class_is_chosen() -> None:
    java_type = Tuple([INTEGER, order_type(1, 59, "town id", null_hash=43)])
    assert chosen_hash(java_type, list(enumerate(ORDERS))).name == "lombok(town,id)"
    case_class = CaseClass([INTEGER, TEXT])
    chosen = chosen_hash(case_class, [(number, tuple(b"x" * number)) for number in range(50)])
    assert chosen.name == "case-class"


def test_first_of_formulas_that_agree_on_all_keys_is_chosen() -> None:
    """No town is null, so formulas that differ in the hash of null agree."""
    java_type = order_type(1, 59, "town id")
    assert chosen_hash(java_type, [value for value in ORDERS if value[1] is not None]).name == "lombok(town,id)"


def test_no_formula_is_chosen_if_one_key_lies_in_a_foreign_key_group() -> None:
    right, wrong = order_type(1, 31, "id town"), order_type(1, 31, "id town")
    wrong.code = lambda value: right.code(value) + (value[0] == 39)  # type: ignore[method-assign]
    assert chosen_hash(right, ORDERS).name == "objects-hash(id,town)"
    with pytest.raises(UnsupportedError, match="no formula fits") as caught:
        chosen_hash(wrong, ORDERS)
    assert caught.value.expected == "one of 28 formulas that gives all 400 keys the key groups they lie in"


def test_no_formula_is_chosen_if_one_key_lies_in_two_key_groups() -> None:
    java_type = order_type(1, 31, "id town")
    values_with_a_repeat = [*ORDERS, ORDERS[0]]
    codes = list(map(java_type.code, ORDERS))
    java_type.code = lambda _: next(next_codes)  # type: ignore[method-assign]
    next_codes = iter([*codes, codes[0]])
    assert chosen_hash(java_type, values_with_a_repeat).name == "objects-hash(id,town)"
    next_codes = iter([*codes, codes[0] + 1])
    with pytest.raises(UnsupportedError, match="no formula fits"):
        chosen_hash(java_type, values_with_a_repeat)


@pytest.mark.parametrize(("max_parallelism", "needed_count"), [(64, 6), (128, 5), (32768, 3)])
def test_too_few_keys_are_refused(max_parallelism: int, needed_count: int) -> None:
    """The chance that a wrong one of 28 formulas fits must be below one in 10^9.

    With max parallelism 64, five keys leave a chance of 28 × 64^-5, which is above that; six keys leave 28 × 64^-6.
    """
    java_type = order_type(1, 31, "id town")
    with pytest.raises(UnsupportedError, match="too few keys") as caught:
        chosen_hash(java_type, ORDERS[1:needed_count] * 100, max_parallelism)
    assert caught.value.expected == f"{needed_count} keys with different hashes, to test 28 formulas"
    assert caught.value.found == f"{needed_count - 1} in {needed_count - 1} distinct keys"
    assert chosen_hash(java_type, ORDERS[1 : needed_count + 1], max_parallelism).name == "objects-hash(id,town)"


def test_early_check_refuses_only_what_more_keys_cannot_decide() -> None:
    java_type, unguessable_type = order_type(1, 31, "id town"), order_type(77, 12345, "town")
    for values in ([], ORDERS[:1], [ORDERS[1]] * 100, ORDERS):
        refuse_no_hash(*choice_arguments(java_type, values))
    refuse_no_hash(*choice_arguments(INTEGER, [1], 2, LONG))
    refuse_no_hash(*choice_arguments(unguessable_type, []))
    with pytest.raises(UnsupportedError, match="no formula fits"):
        refuse_no_hash(*choice_arguments(unguessable_type, ORDERS))
    with pytest.raises(UnsupportedError, match="too few key groups to find it"):
        refuse_no_hash(*choice_arguments(java_type, [], 63))
    with pytest.raises(UnsupportedError, match="contain an enum"):
        refuse_no_hash(*choice_arguments(INTEGER, [], 128, ENUM))


def test_keys_with_equal_hashes_count_once() -> None:
    """The hash covers the town alone: many ids of three towns give three different hashes."""
    java_type = order_type(0, 31, "town")
    with pytest.raises(UnsupportedError, match="too few keys") as caught:
        chosen_hash(java_type, [value for value in ORDERS if value[1] in (None, *map(tuple, (b"Ulm", b"Oslo")))])
    assert caught.value.found == "3 in 120 distinct keys"


def test_too_few_key_groups_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="too few key groups to find it") as caught:
        chosen_hash(order_type(1, 31, "id town"), ORDERS, 63)
    assert caught.value.found == "63"
    assert "--max-parallelism 21, 9, 7, 3; or" in (caught.value.advice or "")


def test_two_fitting_formulas_that_disagree_are_refused() -> None:
    """The formulas differ only for a key with a null, and both of its hashes lead to the same one of 128 key groups."""
    lombok_type, other_type = order_type(1, 59, "town id", null_hash=43), order_type(1, 59, "town id")
    null_order = next(
        (number, None)
        for number in range(10_000)
        if key_group_of_hash(lombok_type.code((number, None)), 128)
        == key_group_of_hash(other_type.code((number, None)), 128)
    )
    with pytest.raises(UnsupportedError, match="give different hashes") as caught:
        chosen_hash(lombok_type, [*(value for value in ORDERS if value[1] is not None), null_order])
    assert caught.value.found == "lombok(town,id) and 1x59(town,id)"
    assert "--key-hash NAME" in (caught.value.advice or "")


@pytest.mark.parametrize(
    ("snapshot", "reason", "advice"),
    [
        (ENUM, "contain an enum", "module:function"),
        (pojo({"colour": ENUM, "id": INT}), "contain an enum", "module:function"),
        (simple("StringValue"), "is unknown", "4, …; or give your own function, --key-hash module:function"),
        (list_of(simple("StringValue")), "is unknown", "4, …; or give your own function"),
        (pojo({"money": KRYO}), "cannot find where a key of type", "--max-parallelism 64, 32, 16, 8, 4, …"),
        (KRYO, "where a key of type", "--max-parallelism 64, 32, 16, 8, 4, …; or give your own function"),
    ],
)
def test_types_without_a_formula_are_refused(snapshot: bytes, reason: str, advice: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as caught:
        chosen_hash(INTEGER, [1], 128, snapshot)
    assert caught.value.advice is not None
    assert advice in caught.value.advice
    assert caught.value.advice.startswith("a max parallelism that divides the old one needs no hash of keys")


def test_no_divisor_is_advised_for_a_prime_max_parallelism() -> None:
    with pytest.raises(UnsupportedError) as caught:
        chosen_hash(INTEGER, [1], 97, ENUM)
    assert (caught.value.advice or "").startswith("keep the max parallelism, 97; or ")


@pytest.mark.parametrize(
    ("key", "error_type", "message"),
    [
        ("020500", SnapshotError, "an impossible flag, at byte 1 of the key"),
        (
            "04",
            UnsupportedError,
            "an object of a subclass of its POJO, which cannot be delimited, at byte 1 of the key",
        ),
    ],
)
def test_keys_that_do_not_match_their_type_are_refused(key: str, error_type: type[Exception], message: str) -> None:
    data = np.frombuffer(bytes.fromhex("ff" + key), np.uint8)
    key_arrays = np.array([1]), np.array([len(data)]), np.array([5])
    with pytest.raises(error_type, match=message):
        choose_hash(parsed(order_type(1, 31, "id town").snapshot), data, *key_arrays, 128)


@pytest.mark.parametrize(
    ("snapshot", "name", "expected"),
    [
        (LONG, "objects-hash(id)", "java: the hash of these keys is known"),
        (pojo({"id": INT}), "java", "for instance objects-hash(id)"),
        (pojo({"id": INT}), "objects-hash", "objects-hash, lombok, record, 17x31, 17x37, 7x31, 1x59 or STARTxFACTOR"),
        (pojo({"id": INT}), "objects-hash(name)", "fields of com.example.Order"),
        (pojo({"id": INT}), "objects-hash(id,id)", "fields of com.example.Order"),
        (pojo({"id": INT}), "objects-hash(id)(id)", "fields of com.example.Order"),
        (pojo({"id": INT}), "lombok(boolean id)", "fields of com.example.Order"),
        (pojo({"id": simple("Boolean")}), "lombok(id,boolean id)", "fields of com.example.Order"),
        (pojo({"id": simple("Boolean")}), "objects-hash(boolean id)", "fields of com.example.Order"),
        (
            pojo({"id": INT, "inner": pojo({"x": INT}, name="com.example.In")}),
            "lombok(id)",
            "objects-hash(id,inner)(x)",
        ),
        (pojo({"id": INT, "colour": ENUM}), "objects-hash(colour,id)", "for instance objects-hash(id)"),
        (pojo({"id": INT}), "case-class", "for instance objects-hash(id)"),
        (CaseClass([INTEGER]).snapshot, "objects-hash(id)", "case-class"),
        (ENUM, "objects-hash(id)", "module:function"),
    ],
)
def test_unknown_hash_name_is_refused_with_the_valid_names(snapshot: bytes, name: str, expected: str) -> None:
    with pytest.raises(RequestError, match="does not define a hash for keys") as caught:
        named_hash(parsed(snapshot), name)
    assert expected in (caught.value.expected or "")


def test_named_formula_may_leave_out_an_enum() -> None:
    chosen = named_hash(parsed(pojo({"id": INT, "colour": ENUM})), "objects-hash(id)")
    assert chosen.program.hashable


def test_formulas_are_tried_only_if_the_rest_of_the_key_is_hashable() -> None:
    serializers = parsed(pojo({"id": INT})), parsed(list_of(simple("StringValue")))
    assert [len(list(candidate_hashes(serializer))) for serializer in serializers] == [7, 0]


def test_error_code_of_a_subclass_is_that_of_the_machine() -> None:
    assert machine.SUBCLASS == SUBCLASS
    assert "subclass" in ERROR_TEXTS[SUBCLASS]
