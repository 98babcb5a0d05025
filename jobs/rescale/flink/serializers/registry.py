"""The rows (`Serializer`) of all serializers, by class of the snapshot: Flink's own, and those that users register.

A Python distribution registers a row by an entry point of the group `rescale.serializers`, which names a `Serializer`
or a tuple of them. Loading entry points takes milliseconds, so readers load them only for a class that is not Flink's.
Planning always loads them, so that it refuses an invalid registration before anything is moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from types import MappingProxyType

from rescale.flink.serializers.rows import cep, core, jars, scala, streaming, tables
from rescale.flink.serializers.serializer import Serializer
from rescale.flink.serializers.user_row import checked_row
from rescale.text.errors import RequestError

ENTRY_POINT_GROUP = "rescale.serializers"

FLINK_ROWS: Mapping[str, Serializer] = MappingProxyType(
    {row.snapshot: row for row in chain(core.ROWS, streaming.ROWS, tables.ROWS, scala.ROWS, cep.ROWS, jars.ROWS)}
)


@dataclass(frozen=True)
class RegisteredRow:
    """A `Serializer` row that a user registered, and the distribution that it comes from, such as `money 1.2`."""

    row: Serializer
    distribution: str


def row_of(class_name: str) -> Serializer | None:
    """Return the row of a snapshot class; None if it has no row. Raises the errors of `registered_rows`."""
    row = FLINK_ROWS.get(class_name)
    if row is None and (registered_row := registered_rows().get(class_name)) is not None:
        row = registered_row.row
    return row


@cache
def registered_rows() -> Mapping[str, RegisteredRow]:
    """Return the serializers (`Serializer` rows) that users registered, by snapshot class.

    Raises `RequestError` for an entry point that cannot be loaded, is no valid row, or repeats a snapshot class.
    """
    rows: dict[str, RegisteredRow] = {}
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        distribution = (
            f"{entry_point.dist.name} {entry_point.dist.version}" if entry_point.dist is not None else entry_point.value
        )
        for row in _rows_at(entry_point, distribution):
            if row.snapshot in FLINK_ROWS or row.snapshot in rows:
                owner = rows[row.snapshot].distribution if row.snapshot in rows else "Rescale itself"
                raise _registration_error(
                    entry_point,
                    distribution,
                    expected=f"a snapshot class that has no row yet: {row.snapshot} has a row of {owner}",
                    actual=entry_point.value,
                )
            rows[row.snapshot] = RegisteredRow(checked_row(row, distribution), distribution)
    return MappingProxyType(rows)


def _rows_at(entry_point: EntryPoint, distribution: str) -> tuple[Serializer, ...]:
    try:
        loaded_rows = entry_point.load()
    except (Exception, SystemExit) as error:  # a user's module can fail in any way
        raise _registration_error(
            entry_point,
            distribution,
            expected=f"an import of {entry_point.value} without an error",
            actual=f"{type(error).__name__}: {error}",
        ) from error
    rows = loaded_rows if isinstance(loaded_rows, tuple) else (loaded_rows,)
    for row in rows:
        if not isinstance(row, Serializer):
            raise _registration_error(
                entry_point, distribution, expected=f"{Serializer.__name__}, or a tuple of them", actual=repr(row)
            )
    return rows


def _registration_error(entry_point: EntryPoint, distribution: str, *, expected: str, actual: str) -> RequestError:
    return RequestError(
        f"the serializer {entry_point.name} that {distribution} registers cannot be used",
        expected=expected,
        found=actual,
        advice=f"correct or uninstall {distribution}",
    )
