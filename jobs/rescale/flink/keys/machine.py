"""Compiled machine that runs programs over many keys. Import this module inside functions (see `compiled`).

An instruction is three numbers: the operation and its operands `a` and `b`. The machine has a register for the last
value: its hash, and whether it is null. The machine also has a stack of frames. A frame has an accumulator for a hash,
and either the remaining rounds of a loop or the position of a row's mask.

Hashes are 64-bit integers, and bits that do not fit are lost. Their lower 32 bits are Java's `int`, because in sums,
products and exclusive ors, lower bits never depend on higher bits.
"""

from __future__ import annotations

import numpy as np

from rescale.flink.arrays import Bytes, HashCodes, Longs
from rescale.flink.compiled import Long, compiled
from rescale.flink.keys.murmur import WORD_MASK, finalize_hash, mix

STOP, FIXED, TEXT, NUMBER, BLOB = range(5)
PUSH, FOLD, POP, MASK, FIELD, END_ROW = range(5, 11)
REPEAT, AGAIN, CASE, JUMP, NULLABLE, FLAGS, DEEP = range(11, 18)
WEIGH, MIX, END_PRODUCT, UUID = range(18, 22)
"""Operations; those with operands have them in this order:

FIXED size rule; TEXT has-null; NUMBER scaled; BLOB rule; PUSH initial; MASK bits; FIELD bit target-if-null; END_ROW
has-kind; REPEAT target-if-none; AGAIN target; CASE tag target-if-other (0 in the last case: no other tag is possible);
JUMP target; NULLABLE padding target-if-null; FLAGS target-if-null; WEIGH weight hash-of-null; END_PRODUCT
number-of-fields; UUID kryo-version.
"""

UNKNOWN, INTEGER, CHARACTER, BOOLEAN, FLOAT, LONG, DOUBLE = range(7)
DATE, LOCAL_DATE, LOCAL_TIME, LOCAL_DATE_TIME, INSTANT, LONG_VALUE, ZERO = range(7, 14)
SCALA_LONG, IDENTITY = 14, 15
ARRAY, BINARY_ROW = 1, 2
"""Values of `BlobHash`; the other constants from UNKNOWN on are values of `FixedHash`."""

FINE, OUTSIDE, SHORT, BAD_LENGTH, BAD_FLAG, BAD_MASK, BAD_CHARACTER, SUBCLASS = range(8)

_NULL_FLAG, _PLAIN_FLAG, _SUBCLASS_FLAG, _TAGGED_SUBCLASS_FLAG = 1, 2, 4, 8
"""Flags of `PojoSerializer`."""

_SMALLEST_LONG, _SMALLEST_INT = -(1 << 63), -(1 << 31)
_SHORTCUT_COUNT = 4
"""`BigIntSerializer` writes null, 0, 1 and 10 as lengths 0 to 3."""

_BINARY_ROW_SEED = 42

_UUID_ID, _NEW_OBJECT = 84, 1
"""Bytes in front of a UUID: 2 + its id in `FlinkChillPackageRegistrar`, and the mark of `MapReferenceResolver`."""


@compiled
def _read_signed(data: Bytes, at: int, size: int) -> Long:
    """Return the big-endian number in two's complement in `size` bytes, at most eight."""
    value = np.int64(0)
    for i in range(at, at + size):
        value = value << 8 | np.int64(data[i])
    unused_bits = 64 - 8 * size
    return value << unused_bits >> unused_bits


@compiled
def _long_hash(value: Long) -> Long:
    return value ^ (value >> 32)


@compiled
def _local_date_hash(data: Bytes, at: int) -> Long:
    year, month, day = _read_signed(data, at, 4), _read_signed(data, at + 4, 1), _read_signed(data, at + 5, 1)
    return (year & ~0x7FF) ^ ((year << 11) + (month << 6) + day)


@compiled
def _local_time_hash(data: Bytes, at: int) -> Long:
    hour, minute, second = np.int64(data[at]), np.int64(data[at + 1]), np.int64(data[at + 2])
    return _long_hash(((hour * 60 + minute) * 60 + second) * 1_000_000_000 + _read_signed(data, at + 3, 4))


@compiled
def _fixed_hash(data: Bytes, at: int, size: int, hash_rule: int) -> tuple[Long, bool]:
    """Return (hash of a value of `size` bytes, whether it is null); `hash_rule` is a `FixedHash`."""
    if hash_rule in (UNKNOWN, ZERO, IDENTITY):
        return np.int64(0), False
    if hash_rule >= LOCAL_DATE and hash_rule <= LOCAL_DATE_TIME:
        if hash_rule == LOCAL_TIME:
            return (np.int64(0), True) if data[at] == 0x80 else (_local_time_hash(data, at), False)
        if _read_signed(data, at, 4) == _SMALLEST_INT:
            return np.int64(0), True
        date_hash = _local_date_hash(data, at)
        return date_hash ^ _local_time_hash(data, at + 6) if hash_rule == LOCAL_DATE_TIME else date_hash, False
    value = _read_signed(data, at, min(size, 8))
    if hash_rule == LONG:
        return _long_hash(value), False
    if hash_rule == CHARACTER:
        return value & 0xFFFF, False
    if hash_rule == BOOLEAN:
        return np.int64(1231 if value else 1237), False
    if hash_rule == FLOAT:
        return np.int64(0x7FC00000) if value & 0x7FFFFFFF > 0x7F800000 else value, False
    if hash_rule == DOUBLE:
        if value & 0x7FFFFFFFFFFFFFFF > 0x7FF0000000000000:
            return np.int64(0x7FF80000), False
        return _long_hash(value), False
    if hash_rule == SCALA_LONG:
        return value if value == value << 32 >> 32 else _long_hash(value), False
    if hash_rule == LONG_VALUE:
        return 43 + _long_hash(value), False
    if hash_rule in (DATE, INSTANT):
        if value == _SMALLEST_LONG:
            return np.int64(0), True
        return _long_hash(value) + (51 * _read_signed(data, at + 8, 4) if hash_rule == INSTANT else 0), False
    return value, False


@compiled
def _read_packed(data: Bytes, at: int, limit: int) -> tuple[Long, int, int]:
    """Read a number with seven bits in each byte, the lowest bits first; return (value, its end, error code)."""
    value = np.int64(0)
    for shift in range(0, 35, 7):
        if at >= limit:
            return value, at, SHORT
        byte = np.int64(data[at])
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at, FINE
    return value, at, BAD_LENGTH


@compiled
def _read_string(data: Bytes, at: int, limit: int, has_null: int) -> tuple[Long, bool, int, int]:
    """Read a string; return (hash, whether it is null, its end, error code)."""
    hash_code = np.int64(0)
    unit_count, at, error_code = _read_packed(data, at, limit)
    if error_code != FINE:
        return hash_code, False, at, error_code
    if has_null:
        if unit_count == 0:
            return hash_code, True, at, FINE
        unit_count -= 1
    if unit_count > limit - at:
        return hash_code, False, at, BAD_LENGTH
    for _ in range(unit_count):
        if at >= limit:
            return hash_code, False, at, SHORT
        unit = np.int64(data[at])
        if unit < 0x80:
            at += 1
        else:
            unit, unit_end, error_code = _read_packed(data, at, limit)
            if error_code != FINE or unit > 0xFFFF:
                return hash_code, False, at, SHORT if error_code == SHORT else BAD_CHARACTER
            at = unit_end
        hash_code = 31 * hash_code + unit
    return hash_code, False, at, FINE


@compiled
def _big_integer_hash(data: Bytes, at: int, size: int) -> Long:
    """Return `BigInteger.hashCode` of a number in two's complement of `size` bytes.

    Java folds the words of the magnitude from the highest to the lowest. This loop goes from the lowest to the highest,
    and multiplies each word by a power of 31.
    """
    is_negative = data[at] >= 0x80
    hash_code, power, carry = np.int64(0), np.int64(1), np.int64(1)
    end = at + size
    while end > at:
        start = max(at, end - 4)
        word = _read_signed(data, start, end - start) & WORD_MASK
        if is_negative:
            word = (word ^ WORD_MASK) + carry
            carry = word >> 32
            word &= WORD_MASK
        hash_code += word * power
        power *= 31
        end = start
    return -hash_code if is_negative else hash_code


@compiled
def _read_number(data: Bytes, at: int, limit: int, has_scale: int) -> tuple[Long, bool, int, int]:
    """Read a `BigInteger`, or a `BigDecimal` if `has_scale`; return (hash, whether it is null, its end, error code)."""
    hash_code = np.int64(0)
    if limit - at < 4:
        return hash_code, False, at, SHORT
    size = _read_signed(data, at, 4) - _SHORTCUT_COUNT
    if size >= limit - at - 3 or size < -_SHORTCUT_COUNT or size == 0:
        return hash_code, False, at, BAD_LENGTH
    at += 4
    if size == -4:
        return hash_code, True, at, FINE
    if size > 0:
        hash_code = _big_integer_hash(data, at, size)
        at += size
    elif size > -3:
        hash_code = np.int64(1 if size == -2 else 10)
    if has_scale:
        if limit - at < 4:
            return hash_code, False, at, SHORT
        hash_code = 31 * hash_code + _read_signed(data, at, 4)
        at += 4
    return hash_code, False, at, FINE


@compiled
def _read_uuid(data: Bytes, at: int, limit: int, kryo_version: int) -> tuple[Long, bool, int, int]:
    """Read a UUID that Kryo wrote; return (hash, whether it is null, its end, error code)."""
    hash_code = np.int64(0)
    if at < limit and data[at] == 0:
        return hash_code, True, at + 1, FINE
    for mark in (_UUID_ID, _NEW_OBJECT):
        if at >= limit:
            return hash_code, False, at, SHORT
        if data[at] != mark:
            return hash_code, False, at, BAD_FLAG
        at += 1
    is_packed = kryo_version == 2
    for _ in range(2):
        value, shift = np.int64(0), 0
        while shift < 64:
            if at >= limit:
                return hash_code, False, at, SHORT
            byte = np.int64(data[at])
            at += 1
            has_more = is_packed and byte >= 0x80 and shift < 56  # the ninth byte has eight bits
            value |= (byte & 0x7F if has_more else byte) << shift
            shift += 7 if has_more else 64 if is_packed else 8
        hash_code ^= (value >> 1 & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1) if is_packed else value
    return _long_hash(hash_code), False, at, FINE


@compiled
def _blob_hash(data: Bytes, at: int, size: Long, hash_rule: int) -> Long:
    if hash_rule == ARRAY:
        hash_code = np.int64(1)
        for i in range(at, at + size):
            hash_code = 31 * hash_code + _read_signed(data, i, 1)
        return hash_code
    hash_state: Long = np.int64(_BINARY_ROW_SEED)
    if hash_rule == BINARY_ROW:
        for i in range(at, at + size, 4):
            word = np.int64(data[i]) | np.int64(data[i + 1]) << 8
            hash_state = mix(hash_state, word | np.int64(data[i + 2]) << 16 | np.int64(data[i + 3]) << 24)
        hash_state = finalize_hash(hash_state, size)
    return hash_state


@compiled
def walk(
    instructions: Longs,
    depth: int,
    data: Bytes,
    starts: Longs,
    limits: Longs,
    ends: Longs,
    hash_codes: HashCodes,
    error_codes: Bytes,
) -> None:
    """Run `instructions` (n × 3) over the key at each of `starts`, never beyond the key's limit.

    Fills `ends`, `hash_codes` and `error_codes`. For a wrong key, `error_codes` gets the error code, and
    `ends` the position of the error.
    """
    frames = np.zeros((depth + 1, 2), np.int64)
    for i in range(len(starts)):
        at, limit = starts[i], limits[i]
        error_code = FINE if at >= 0 and at <= limit and limit <= len(data) else OUTSIDE
        hash_code, is_null, top, next_op = np.int64(0), False, -1, 0
        while error_code == FINE:
            op, a, b = instructions[next_op, 0], instructions[next_op, 1], instructions[next_op, 2]
            next_op += 1
            if op == STOP:
                break
            if op == FIXED:
                if a > limit - at:
                    error_code = SHORT
                elif b == BOOLEAN and data[at] > 1:
                    error_code = BAD_FLAG
                else:
                    hash_code, is_null = _fixed_hash(data, at, a, b)
                    at += a
            elif op == TEXT:
                hash_code, is_null, at, error_code = _read_string(data, at, limit, a)
            elif op == NUMBER:
                hash_code, is_null, at, error_code = _read_number(data, at, limit, a)
            elif op == UUID:
                hash_code, is_null, at, error_code = _read_uuid(data, at, limit, a)
            elif op == BLOB:
                size = _read_signed(data, at, 4) if limit - at >= 4 else np.int64(-1)
                if size < 0 or size > limit - at - 4 or (a == BINARY_ROW and size % 8):
                    error_code = SHORT if limit - at < 4 else BAD_LENGTH
                else:
                    hash_code, is_null = _blob_hash(data, at + 4, size, a), False
                    at += 4 + size
            elif op == PUSH:
                top += 1
                frames[top, 0] = a
            elif op == FOLD:
                frames[top, 0] = 31 * frames[top, 0] + hash_code
            elif op == POP:
                hash_code, is_null = frames[top, 0], False
                top -= 1
            elif op == MASK:
                size = (a + 7) >> 3
                if size > limit - at:
                    error_code = SHORT
                elif a & 7 and data[at + size - 1] & (0xFF >> (a & 7)):
                    error_code = BAD_MASK
                else:
                    top += 1
                    frames[top, 0], frames[top, 1] = 1, at
                    at += size
            elif op == FIELD:
                if data[frames[top, 1] + (a >> 3)] & (0x80 >> (a & 7)):
                    frames[top, 0] *= 31
                    next_op = b
            elif op == END_ROW:
                hash_code, is_null = frames[top, 0], False
                if a:
                    bits = np.int64(data[frames[top, 1]])
                    hash_code += 31 * (bits >> 7 | (bits >> 5 & 2))
                top -= 1
            elif op == REPEAT:
                count = _read_signed(data, at, 4) if limit - at >= 4 else np.int64(-1)
                if count < 0 or count > limit - at - 4:
                    error_code = SHORT if limit - at < 4 else BAD_LENGTH
                else:
                    at += 4
                    top += 1
                    frames[top, 0], frames[top, 1] = 1, count
                    if count == 0:
                        next_op = a
            elif op == AGAIN:
                frames[top, 1] -= 1
                if frames[top, 1]:
                    next_op = a
            elif op == JUMP:
                next_op = a
            elif op == DEEP:
                if not is_null:
                    hash_code += 31
            elif op == WEIGH:
                frames[top, 0] += a * (b if is_null else hash_code)
            elif op == MIX:
                frames[top, 0] = mix(frames[top, 0], hash_code & WORD_MASK)
            elif op == END_PRODUCT:
                hash_code, is_null = finalize_hash(frames[top, 0], a), False
                top -= 1
            elif at >= limit:
                error_code = SHORT
            elif op == FLAGS:
                if data[at] == _NULL_FLAG:
                    hash_code, is_null = np.int64(0), True
                    next_op = a
                elif data[at] != _PLAIN_FLAG:
                    error_code = SUBCLASS if data[at] in (_SUBCLASS_FLAG, _TAGGED_SUBCLASS_FLAG) else BAD_FLAG
                at += 1
            elif op == CASE:
                if data[at] == a:
                    at += 1
                elif b:
                    next_op = b
                else:
                    error_code = BAD_FLAG
            elif data[at] > 1:
                error_code = BAD_FLAG
            elif not data[at]:  # op is NULLABLE, and the value is not null
                at += 1
            elif a > limit - at - 1:
                error_code = SHORT
            else:
                hash_code, is_null = np.int64(0), True
                at += 1 + a
                next_op = b
        ends[i], error_codes[i] = at, error_code
        hash_codes[i] = np.int32(hash_code) if error_code == FINE else 0


@compiled
def walk_values(instructions: Longs, depth: int, data: Bytes, start: int, ends: Longs) -> tuple[Long, Long]:
    """Run `instructions` over values that lie end to end from `start` on; fill `ends` with their ends.

    The loop stops at the first wrong value. Returns (number of values before the wrong one, error code).
    """
    begin, limit = np.empty(1, np.int64), np.empty(1, np.int64)
    hash_codes, error_codes = np.empty(1, np.int32), np.zeros(1, np.uint8)
    begin[0], limit[0] = start, len(data)
    for i in range(len(ends)):
        walk(instructions, depth, data, begin, limit, ends[i : i + 1], hash_codes, error_codes)
        if error_codes[0] != FINE:
            return i, np.int64(error_codes[0])
        begin[0] = ends[i]
    return len(ends), np.int64(FINE)
