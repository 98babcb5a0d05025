"""A serializer that a user registers, as a plan names it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rescale.flink.serializers.registry import ENTRY_POINT_GROUP, registered_rows
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.text.errors import RequestError


@dataclass(frozen=True)
class UserSerializer:
    """A snapshot class, and the distribution that registers its row, such as `money 1.2`.

    An object of this class can exist only where exactly this distribution is installed. Elsewhere, creating the object,
    reading it from a plan, and receiving it in a Spark task raise `RequestError`. So all steps use the same row as
    planning.
    """

    snapshot: str
    distribution: str

    def __post_init__(self) -> None:
        installed_row = registered_rows().get(self.snapshot)
        if installed_row is None or installed_row.distribution != self.distribution:
            raise RequestError(
                f"the plan was made with a serializer for {self.snapshot}, which is not installed here",
                expected=f"{self.distribution}, which registers it as an entry point of the group {ENTRY_POINT_GROUP}",
                found="none" if installed_row is None else installed_row.distribution,
                advice=f"install {self.distribution} wherever a step runs, and on all Spark workers; or plan again",
            )

    def __reduce__(self) -> tuple[Any, ...]:
        return UserSerializer, (self.snapshot, self.distribution)


def user_serializers(snapshots: Iterable[SerializerSnapshot]) -> tuple[UserSerializer, ...]:
    """Return the users' serializers that occur in the snapshots, at any depth, ordered by class.

    Raises `RequestError` for an invalid registration, even if no snapshot needs it.
    """
    rows = registered_rows()
    class_names = {class_name for snapshot in snapshots for class_name in _class_names(snapshot)} & set(rows)
    return tuple(UserSerializer(class_name, rows[class_name].distribution) for class_name in sorted(class_names))


def _class_names(snapshot: SerializerSnapshot) -> Iterator[str]:
    yield snapshot.class_name
    for nested in (*snapshot.nested, *(subclass for _, subclass in snapshot.subclasses if subclass is not None)):
        yield from _class_names(nested)
