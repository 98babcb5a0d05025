"""Formulas for hashes of the user's own classes: their names, their hashes, and which ones are tried."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescale.flink.keys.java_hash import walk_keys
from rescale.flink.keys.pojo_formulas import (
    MOST_FORMULAS,
    ClassWithHashCode,
    Formula,
    apply_formula,
    classes_with_hash_code,
    formulas,
    parse_formula,
)
from rescale.flink.serializers.program import Program, compile_program
from support.examples import examples
from support.java_composites import CaseClass, Either, List, Pojo, Row, Tuple
from support.java_values import HASHABLE_LEAVES, ByteArray, JavaType
from support.snapshot_bytes import INT, parsed, pojo, simple

LEAVES = HASHABLE_LEAVES
INTEGER, LONG, TEXT, BOOLEAN = (LEAVES[name] for name in ("Int", "Long", "String", "Boolean"))


def codes(java_type: JavaType, formula: str, keys: list[bytes]) -> list[int]:
    program = compile_program(parsed(java_type.snapshot))
    parsed_formula = parse_formula(formula)
    assert parsed_formula is not None
    tree = apply_formula(program.tree, classes_with_hash_code(program.tree), parsed_formula)
    limits = np.cumsum([len(key) for key in keys], dtype=np.int64)
    starts = limits - np.array([len(key) for key in keys], dtype=np.int64)
    walked = walk_keys(Program("", tree), np.frombuffer(b"".join(keys), np.uint8), starts, limits)
    assert walked.first_error() is None
    assert walked.ends.tolist() == limits.tolist()
    assert walked.hash_codes is not None
    return walked.hash_codes.tolist()


@pytest.mark.parametrize(
    ("formula", "code"),
    [
        ("objects-hash(number,town)", 31 * (31 + 7) + 99162322),
        ("objects-hash(town,number)", 31 * (31 + 99162322) + 7),
        ("record(town,number)", 31 * 99162322 + 7),
        ("record(number)", 7),
        ("lombok(number,town)", 59 * (59 + 7) + 99162322),
        ("lombok(boolean open,number)", 59 * (59 + 79) + 7),
        ("lombok(open)", 59 + 1231),
        ("17x31(number)", 17 * 31 + 7),
        ("17x31(number,boolean open)", (17 * 31 + 7) * 31 + 1),
        ("17x37(number,boolean open)", (17 * 37 + 7) * 37 + 0),
        ("7x31(number)", 7 * 31 + 7),
        ("3x83(number)", 3 * 83 + 7),
        ("0x1(number,town)", 7 + 99162322),
    ],
)
def test_formulas_give_the_expected_hashes(formula: str, code: int) -> None:
    order = Pojo({"number": INTEGER, "town": TEXT, "open": BOOLEAN}, 0, 0, [])
    key = order.write((7, True, tuple(b"hello")))
    assert codes(order, formula, [key]) == [(code + (1 << 31)) % (1 << 32) - (1 << 31)]


def test_null_fields_are_hashed_by_the_rule_of_the_formula() -> None:
    order = Pojo({"number": INTEGER, "town": TEXT}, 0, 0, [])
    keys = [order.write((7, None)), order.write(None)]
    assert codes(order, "objects-hash(number,town)", keys) == [31 * (31 + 7), 0]
    assert codes(order, "lombok(number,town)", keys) == [59 * (59 + 7) + 43, 0]


def test_null_object_hashes_as_0() -> None:
    """The fields and elements before it do not matter."""
    order = Pojo({"number": INTEGER}, 0, 0, [])
    assert codes(Tuple([INTEGER, order]), "objects-hash(number)", [INTEGER.write(7) + order.write(None)]) == [31 * 7]
    assert codes(List(order), "record(number)", [List(order).write([(7,), None])]) == [31 * (31 + 7)]


def test_case_classes_hash_as_scala_2_12_does() -> None:
    assert codes(CaseClass([LONG, TEXT]), "case-class", [LONG.write(42) + TEXT.write(tuple(b"hello"))]) == [424919364]
    assert codes(CaseClass([INTEGER, INTEGER]), "case-class", [INTEGER.write(1) + INTEGER.write(2)]) == [1411956066]


def test_a_case_class_of_floats_has_no_formula() -> None:
    tree = compile_program(parsed(CaseClass([LEAVES["Double"]]).snapshot)).tree
    assert not apply_formula(tree, (), Formula("case-class", ())).hashable


FIELDS = st.sampled_from([INTEGER, LONG, TEXT, LEAVES["BigDecimal"], LEAVES["Instant"], ByteArray(), List(TEXT)])
BOOLEANS = {"lombok": (79, 97), "17x37": (0, 1), "17x31": (1, 0)}


@st.composite
def types_and_formulas(draw: st.DrawFn) -> tuple[JavaType, str]:
    """Draw a POJO and its formula; it may contain another POJO, or lie in a composite type."""
    name, start, factor, null_hash = draw(
        st.sampled_from(
            [
                ("objects-hash", 1, 31, 0),
                ("lombok", 1, 59, 43),
                ("17x37", 17, 37, 0),
                ("4294967295x2147483647", (1 << 32) - 1, (1 << 31) - 1, 0),
            ]
        )
    )
    inner_fields = dict(zip("xyz", draw(st.lists(FIELDS, min_size=1, max_size=3)), strict=False))
    inner_order = draw(st.permutations(list(inner_fields)))
    inner = Pojo(inner_fields, start, factor, inner_order, null_hash, name="com.example.Inner")
    fields: dict[str, JavaType] = dict(zip("abc", draw(st.lists(FIELDS, max_size=3)), strict=False))
    spelling_by_field = {field: field for field in fields}
    inner_list = ""
    if draw(st.booleans()):
        fields["inner"], spelling_by_field["inner"] = inner, "inner"
        inner_list = f"({','.join(inner_order)})"
    rules = {}
    if name in BOOLEANS and draw(st.booleans()):
        true_hash, false_hash = BOOLEANS[name]
        fields["open"], spelling_by_field["open"] = BOOLEAN, "boolean open"
        rules["open"] = lambda value: true_hash if value else false_hash
    field_order = draw(st.permutations(list(fields)).flatmap(lambda all_: st.sampled_from([all_, all_[1:], all_[:1]])))
    outer = Pojo(fields, start, factor, field_order, null_hash, rules)
    if "open" in fields:  # a primitive one is never null
        at = list(outer.fields).index("open")
        outer.values = outer.values.map(lambda value: (*value[:at], bool(value[at]), *value[at + 1 :]))
    wrap = draw(
        st.sampled_from([lambda t: t, lambda t: Tuple([TEXT, t]), lambda t: Row([t]), List, lambda t: Either(t, LONG)])
    )
    return wrap(outer), f"{name}({','.join(spelling_by_field[field] for field in field_order)})" + inner_list


@given(data=st.data())
@settings(max_examples=examples(200))
def test_formulas_hash_as_the_slow_twin(data: st.DataObject) -> None:
    java_type, formula = data.draw(types_and_formulas())
    assert str(parse_formula(formula)) == formula
    keys = [java_type.write(value) for value in data.draw(st.lists(java_type.values, max_size=4))]
    slow_codes = [java_type.code(java_type.read(io.BytesIO(key))) for key in keys]
    assert codes(java_type, formula, keys) == slow_codes


@given(data=st.data())
@settings(max_examples=examples(60))
def test_case_classes_hash_as_the_slow_twin(data: st.DataObject) -> None:
    java_type = CaseClass(data.draw(st.lists(st.sampled_from([INTEGER, LONG, TEXT, BOOLEAN]), min_size=1, max_size=3)))
    values = data.draw(st.lists(java_type.values, max_size=4))
    assert codes(java_type, "case-class", list(map(java_type.write, values))) == list(map(java_type.code, values))


@pytest.mark.parametrize("formula", ["", "objects-hash", "objects-hash(a", "(a)", "md5(a)", "x31(a)", "31(a)", "a.b:c"])
def test_malformed_formula_is_not_parsed(formula: str) -> None:
    assert parse_formula(formula) is None


@pytest.mark.parametrize("formula", ["objects-hash(b,a)", "lombok(boolean a)(b)", "record()", "0x1(a)", "case-class"])
def test_parsed_formula_prints_as_it_was_written(formula: str) -> None:
    assert str(parse_formula(formula)) == formula


def test_spaces_in_a_formula_are_ignored() -> None:
    assert str(parse_formula("lombok( boolean  open , id )")) == "lombok(boolean open,id)"


def test_own_classes_in_a_key_are_listed() -> None:
    inner = pojo({"flag": simple("Boolean"), "window": simple("StringValue")}, name="com.example.Inner")
    outer = pojo({"id": INT, "inner": inner, "unit": simple("Void")})
    tree = compile_program(parsed(outer)).tree
    assert classes_with_hash_code(tree) == (
        ClassWithHashCode("com.example.Order", ("id", "inner"), frozenset()),
        ClassWithHashCode("com.example.Inner", ("flag",), frozenset({"flag"})),
    )


def class_with_fields(*fields: str, booleans: tuple[str, ...] = ()) -> ClassWithHashCode:
    return ClassWithHashCode("com.example.Order", fields, frozenset(booleans))


def formula_names(*classes: ClassWithHashCode) -> list[str]:
    return list(map(str, formulas(classes)))


def test_likely_formulas_are_tried_first() -> None:
    assert formula_names(class_with_fields("a", "b"))[:8] == [
        "objects-hash(a,b)",
        "lombok(a,b)",
        "record(a,b)",
        "17x31(a,b)",
        "17x37(a,b)",
        "7x31(a,b)",
        "1x59(a,b)",
        "objects-hash(a)",
    ]


def test_few_fields_are_tried_in_all_orders() -> None:
    names = formula_names(class_with_fields("a", "b", "c"))
    assert len(names) == len(set(names)) == 7 * (3 + 6 + 6)
    assert {"lombok(b)", "17x37(c,a)", "record(c,a,b)"} <= set(names)


def test_boolean_fields_are_tried_as_boxed_and_primitive() -> None:
    names = formula_names(class_with_fields("flag", "id", booleans=("flag",)))
    assert {"lombok(boolean flag,id)", "lombok(flag,id)", "record(id,boolean flag)", "objects-hash(flag,id)"} <= set(
        names
    )
    assert "objects-hash(boolean flag,id)" not in names
    assert len(names) == len(set(names))


def test_field_orders_of_two_classes_are_tried_independently() -> None:
    assert "lombok(b,a)(y)" in formula_names(class_with_fields("a", "b"), class_with_fields("x", "y"))


@pytest.mark.parametrize("field_count", [5, 6, 7, 12, 60])
def test_many_fields_are_tried_in_some_orders(field_count: int) -> None:
    names = [f"f{i:02}" for i in range(field_count)]
    formulas_tried = formula_names(class_with_fields(*names))
    assert len(formulas_tried) == len(set(formulas_tried)) <= MOST_FORMULAS
    assert f"1x59({','.join(names)})" in formulas_tried
    if field_count <= 6:
        assert f"1x59({','.join(reversed(names))})" in formulas_tried
    if field_count <= 7:
        assert "1x59(f01,f03)" in formulas_tried
