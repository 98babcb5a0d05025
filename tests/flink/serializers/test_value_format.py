"""Values as readable text: read to their last byte, and written as people write them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.serializers.program import compile_program
from rescale.flink.serializers.value_format import format_value
from rescale.text.errors import SnapshotError
from support.java_composites import Either, List, Nullable, Pojo, Row, Tuple
from support.java_values import HASHABLE_LEAVES, ByteArray, JavaType
from support.snapshot_bytes import co_grouped, parsed

INT, LONG, TEXT = HASHABLE_LEAVES["Int"], HASHABLE_LEAVES["Long"], HASHABLE_LEAVES["String"]
ORDER = Pojo({"a": INT, "b": TEXT}, 0, 31, ["a", "b"])

TYPE_BY_NAME: dict[str, JavaType] = {
    **HASHABLE_LEAVES,
    "byte[]": ByteArray(),
    "Tuple": Tuple([INT, TEXT]),
    "Row": Row([TEXT, LONG, INT]),
    "Row without kind": Row([TEXT, LONG, INT], has_kind=False),
    "List": List(TEXT),
    "Either": Either(INT, TEXT),
    "Nullable": Nullable(LONG, 8),
    "POJO": ORDER,
}


def text_and_size(java_type: JavaType, data: bytes) -> tuple[str, int]:
    """Return the value as text, and its number of bytes."""
    reader = ByteReader(data)
    return format_value(compile_program(parsed(java_type.snapshot)).tree, reader), reader.position


@pytest.mark.parametrize("name", TYPE_BY_NAME)
@given(data=st.data())
def test_a_value_is_read_to_its_last_byte(name: str, data: st.DataObject) -> None:
    value_bytes = TYPE_BY_NAME[name].write(data.draw(TYPE_BY_NAME[name].values))
    text, size = text_and_size(TYPE_BY_NAME[name], value_bytes + b"behind")
    assert size == len(value_bytes)
    assert text.encode()
    assert "\n" not in text


@pytest.mark.parametrize("name", TYPE_BY_NAME)
@given(data=st.data())
def test_truncated_value_is_refused(name: str, data: st.DataObject) -> None:
    value_bytes = TYPE_BY_NAME[name].write(data.draw(TYPE_BY_NAME[name].values))
    with pytest.raises(SnapshotError):
        text_and_size(TYPE_BY_NAME[name], value_bytes[: data.draw(st.integers(0, len(value_bytes) - 1))])


@pytest.mark.parametrize("name", TYPE_BY_NAME)
@given(data=st.binary(max_size=40))
def test_random_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    try:
        _, size = text_and_size(TYPE_BY_NAME[name], data)
    except SnapshotError:
        return
    assert size <= len(data)


def utf16_units(text: str) -> tuple[int, ...]:
    encoded = text.encode("utf-16-be", "surrogatepass")
    return tuple(int.from_bytes(encoded[i : i + 2], "big") for i in range(0, len(encoded), 2))


@pytest.mark.parametrize(
    ("java_type", "value", "text"),
    [
        (LONG, -5, "-5"),
        (HASHABLE_LEAVES["Boolean"], True, "true"),
        (HASHABLE_LEAVES["Char"], ord("ü"), '"ü"'),
        (HASHABLE_LEAVES["Double"], 1.5, "1.5"),
        (HASHABLE_LEAVES["Float"], -0.25, "-0.25"),
        (TEXT, utf16_units('say "ü𝄞"'), '"say \\"ü𝄞\\""'),
        (TEXT, utf16_units("half \ud834"), '"half \\ud834"'),
        (TEXT, None, "null"),
        (HASHABLE_LEAVES["BigInteger"], 10, "10"),
        (HASHABLE_LEAVES["BigInteger"], -(1 << 70), str(-(1 << 70))),
        (HASHABLE_LEAVES["BigDecimal"], (12345, 2), "12345E-2"),
        (HASHABLE_LEAVES["BigDecimal"], (10, 0), "10"),
        (HASHABLE_LEAVES["LocalDate"], (2024, 2, 29), "0x000007e8021d"),
        (ByteArray(), b"\1\2", "0x0102"),
        (TYPE_BY_NAME["Tuple"], (7, utf16_units("a")), '(7, "a")'),
        (TYPE_BY_NAME["Row"], (1, (None, 2, 3)), "Row(null, 2, 3)"),
        (TYPE_BY_NAME["List"], [utf16_units("a"), utf16_units("b")], '["a", "b"]'),
        (TYPE_BY_NAME["Either"], (False, utf16_units("r")), '"r"'),
        (TYPE_BY_NAME["Nullable"], None, "null"),
        (ORDER, (3, None), "{a: 3, b: null}"),
        (ORDER, None, "null"),
    ],
)
def test_value_is_shown_in_readable_form(java_type: JavaType, value: object, text: str) -> None:
    value_bytes = java_type.write(value)
    assert text_and_size(java_type, value_bytes) == (text, len(value_bytes))
    assert java_type.read(io.BytesIO(value_bytes)) == value


def test_tagged_union_of_two_streams_is_shown() -> None:
    program = compile_program(parsed(co_grouped(INT.snapshot, TEXT.snapshot)))
    tree = program.tree
    assert not program.hashable
    assert format_value(tree, ByteReader(b"\1" + INT.write(7))) == "7"
    assert format_value(tree, ByteReader(b"\2" + TEXT.write(utf16_units("a")))) == '"a"'
    for tag in (b"\0", b"\3"):
        with pytest.raises(SnapshotError, match="an impossible flag") as caught:
            format_value(tree, ByteReader(tag + INT.write(7)))
        assert caught.value.expected == "1 or 2"


def test_number_of_thousands_of_digits_is_shown_as_bytes() -> None:
    value_bytes = HASHABLE_LEAVES["BigInteger"].write(1 << 20_000)
    text, size = text_and_size(HASHABLE_LEAVES["BigInteger"], value_bytes)
    assert size == len(value_bytes)
    assert text.startswith("0x01000")
