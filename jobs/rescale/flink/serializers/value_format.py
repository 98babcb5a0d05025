"""Readable text for a value in the bytes of a serializer, for messages.

`keys.machine` measures and hashes millions of keys; this module formats the few values that appear in messages. Values
without a common notation (a window, an object of the table API) are shown as bytes.
"""

from __future__ import annotations

import json
import struct
import uuid

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.serializers.type_tree import (
    Blob,
    Deep,
    Fixed,
    FixedHash,
    Flagged,
    Masked,
    Nullable,
    Number,
    Product,
    Repeat,
    Sequence,
    Text,
    TypeTree,
    Union,
    Uuid,
)

NULL = "null"

_NULL_FLAG, _PLAIN_FLAG = 1, 2
"""`PojoSerializer.IS_NULL`, `NO_SUBCLASS`."""

_SHORT_NUMBERS = (NULL, "0", "1", "10")
"""Numbers that `BigIntSerializer` writes as a length below 4."""

_MOST_DECIMAL_BYTES = 256
"""Largest size in bytes of a number that is shown in decimal, because Python refuses thousands of digits."""

_INTEGER_RULES = (FixedHash.INTEGER, FixedHash.LONG, FixedHash.SCALA_LONG, FixedHash.LONG_VALUE)
_KRYO_OF_FLINK_2 = 5


def format_value(tree: TypeTree, reader: ByteReader) -> str:
    """Return the value at the reader's cursor as text, and move the cursor past the value.

    Raises `SnapshotError` if the bytes are not a value of this type.
    """
    match tree:
        case Fixed(size, rule):
            return _format_fixed(reader.raw(size), rule)
        case Text(has_null):
            return _format_string(reader, has_null=has_null)
        case Number(scaled):
            return _format_number(reader, has_scale=scaled)
        case Blob():
            return format_bytes(reader.blob())
        case Uuid(kryo_version):
            return _format_uuid(reader, kryo_version)
        case Sequence(fields) | Product(fields):
            return f"({', '.join(format_value(field, reader) for field in fields)})"
        case Masked(fields, has_kind):
            return _format_row(fields, reader, has_kind=has_kind)
        case Repeat(items):
            return f"[{', '.join(_format_entry(items, reader) for _ in range(reader.count(1)))}]"
        case Union(fields, tags):
            return format_value(fields[tags.index(_read_tag(reader, tags))], reader)
        case Nullable(inner, padding):
            if not reader.boolean():
                return format_value(inner, reader)
            reader.raw(padding)
            return NULL
        case Flagged(names=names, fields=fields):
            return _format_object(names, fields, reader)
        case Deep(inner):
            return format_value(inner, reader)


def format_bytes(data: bytes) -> str:
    """Return bytes in hexadecimal."""
    return f"0x{data.hex()}"


def _format_fixed(data: bytes, hash_rule: FixedHash) -> str:
    if hash_rule in _INTEGER_RULES:
        return str(int.from_bytes(data, "big", signed=True))
    if hash_rule is FixedHash.BOOLEAN:
        return "true" if data[0] else "false"
    if hash_rule is FixedHash.CHARACTER:
        return _quoted(data.decode("utf-16-be", "surrogatepass"))
    if hash_rule in (FixedHash.FLOAT, FixedHash.DOUBLE):
        return repr(struct.unpack(">f" if hash_rule is FixedHash.FLOAT else ">d", data)[0])
    return format_bytes(data)


def _format_string(reader: ByteReader, *, has_null: bool) -> str:
    at, unit_count = reader.position, reader.packed()
    if has_null and unit_count == 0:
        return NULL
    return _quoted(reader.utf16(unit_count - has_null, at))


def _quoted(text: str) -> str:
    """Return text in quotation marks, with unpaired surrogates as escapes."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()


def _format_number(reader: ByteReader, *, has_scale: bool) -> str:
    at, length = reader.position, reader.i32()
    if not 0 <= length - len(_SHORT_NUMBERS) <= reader.remaining and not 0 <= length < len(_SHORT_NUMBERS):
        raise reader.error("an impossible length", at=at, found=length)
    if length < len(_SHORT_NUMBERS):
        digits = _SHORT_NUMBERS[length]
    else:
        magnitude = reader.raw(length - len(_SHORT_NUMBERS))
        is_wide = len(magnitude) > _MOST_DECIMAL_BYTES
        digits = format_bytes(magnitude) if is_wide else str(int.from_bytes(magnitude, "big", signed=True))
    if not has_scale or digits == NULL:
        return digits
    scale = reader.i32()
    return f"{digits}E{-scale}" if scale else digits


def _format_uuid(reader: ByteReader, kryo_version: int) -> str:
    if not reader.u8():
        return NULL
    reader.u8()
    if kryo_version != _KRYO_OF_FLINK_2:
        return str(uuid.UUID(int=_zigzag_long(reader) << 64 | _zigzag_long(reader)))
    return str(uuid.UUID(bytes=reader.raw(8)[::-1] + reader.raw(8)[::-1]))


def _zigzag_long(reader: ByteReader) -> int:
    """Return the number that `Output.writeLong(number, false)` of Kryo 2 wrote, modulo 2^64."""
    number = 0
    for shift in range(0, 56, 7):
        byte = reader.u8()
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    else:
        number |= reader.u8() << 56
    return (number >> 1 ^ -(number & 1)) % (1 << 64)


def _format_entry(key_and_value: tuple[TypeTree, ...], reader: ByteReader) -> str:
    return ": ".join(format_value(item, reader) for item in key_and_value)


def _read_tag(reader: ByteReader, tags: tuple[int, ...]) -> int:
    at, tag = reader.position, reader.u8()
    if tag not in tags:
        raise reader.error("an impossible flag", at=at, expected=" or ".join(map(str, tags)), found=tag)
    return tag


def _format_row(fields: tuple[TypeTree, ...], reader: ByteReader, *, has_kind: bool) -> str:
    first_bit = 2 if has_kind else 0
    null_bits = reader.raw((first_bit + len(fields) + 7) // 8)
    field_texts = []
    for bit, field in enumerate(fields, first_bit):
        is_null = null_bits[bit // 8] & 0x80 >> bit % 8
        field_texts.append(NULL if is_null else format_value(field, reader))
    return f"Row({', '.join(field_texts)})"


def _format_object(names: tuple[str, ...], fields: tuple[TypeTree, ...], reader: ByteReader) -> str:
    at, flags = reader.position, reader.u8()
    if flags == _NULL_FLAG:
        return NULL
    if flags != _PLAIN_FLAG:
        raise reader.error("an object of a subclass", at=at, expected=_PLAIN_FLAG, found=flags)
    field_texts = (
        f"{name}: {format_value(Nullable(field), reader)}" for name, field in zip(names, fields, strict=True)
    )
    return f"{{{', '.join(field_texts)}}}"
