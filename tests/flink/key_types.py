"""Jobs that are keyed by the types of keys that the harness makes."""

from __future__ import annotations

from flink.harness import Job

HASHED_KEYS = (
    *("Boolean", "Byte", "Short", "Char", "Int", "Long", "Float", "Double", "String", "BigInteger", "BigDecimal"),
    *("Date", "SqlDate", "SqlTime", "SqlTimestamp", "LocalDate", "LocalTime", "LocalDateTime", "Instant"),
    *("IntValue", "LongValue", "Tuple0", "Tuple1", "Tuple2", "Tuple25", "Nested tuples", "Either", "List"),
    *("Row", "Row of none", "Row of bytes", "Nested rows", "Nullable", "Nullable, padded"),
    *("BinaryRowData of one", "BinaryRowData of a text", "BinaryRowData", "RowData"),
)
"""Types of keys whose hash follows from their bytes."""

UNKNOWN_KEYS = ("Enum", "StringValue")
"""Types of keys whose hash does not, or is not known to."""


def keyed(before: int, maximum: int, *types: str) -> Job:
    """A job with one operator by keys of each type."""
    return Job("keyed", before, {"seed": 7, **dict.fromkeys(types, 1)}, max_parallelism=maximum)
