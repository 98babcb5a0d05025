"""The types of keys that the harness can make, and a job that is keyed by them."""

from __future__ import annotations

from oracle.harness import Job

HASHED_KEYS = (
    *("Boolean", "Byte", "Short", "Char", "Int", "Long", "Float", "Double", "String", "BigInteger", "BigDecimal"),
    *("Date", "SqlDate", "SqlTime", "SqlTimestamp", "LocalDate", "LocalTime", "LocalDateTime", "Instant"),
    *("IntValue", "LongValue", "Tuple0", "Tuple1", "Tuple2", "Tuple25", "Nested tuples", "Either", "List"),
    *("Row", "Row of none", "Row of bytes", "Nested rows", "Nullable", "Nullable, padded"),
    *("BinaryRowData of one", "BinaryRowData of a text", "BinaryRowData", "RowData", "UUID"),
)
"""Types of keys whose hash follows from their bytes."""

FOLDED_KEYS = (
    *("POJO by Objects.hash", "POJO in its own order", "POJO as of Lombok", "POJO as a record", "POJO by its id"),
    *("POJO by HashCodeBuilder", "POJO of POJOs", "POJO in a tuple"),
)
"""Types of keys whose hash is found by trying formulas."""

UNKNOWN_KEYS = ("Enum", "External row", "POJO of an enum", "POJO beyond guessing")
"""Types of keys whose hash no formula finds."""

KEYS_OF_SUBCLASSES = ("POJO of subclasses",)
"""Types of keys whose subclass differs between subtasks."""


def keyed(parallelism: int, max_parallelism: int, *types: str) -> Job:
    """Return a job with one operator keyed by each type."""
    return Job("keyed", parallelism, {"seed": 7, **dict.fromkeys(types, 1)}, max_parallelism=max_parallelism)
