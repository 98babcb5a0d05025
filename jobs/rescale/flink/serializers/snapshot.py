"""A serializer snapshot as a tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rescale.text.errors import UnsupportedError

UNKNOWN = "unknown"
"""The attribute of a snapshot that was passed over: names the class that is not known, itself or inside."""


ABANDONED = "abandoned"
"""Attribute of a snapshot in a form that later releases do not read: names the last release that does."""


class UnknownSerializer(UnsupportedError):  # noqa: N818
    """A snapshot of a class (or a version of it) whose layout is not known: what stands behind it cannot be found.

    It crosses process borders as the `UnsupportedError` that it is.
    """

    def __init__(self, class_name: str, version: int, path: str, offset: int) -> None:
        super().__init__(
            f"version {version} of the serializer snapshot {class_name} is not known",
            path=path,
            offset=offset,
            advice="changing the parallelism needs no serializers; only what must look into keys or values is refused",
        )
        self.class_name = class_name

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "error": UnsupportedError.__name__}


@dataclass(frozen=True)
class SerializerSnapshot:
    """`class_name` is the snapshot's class; `body` its bytes after the version, those of all inside it included.

    `attributes` are what the class stores by name, such as the class of a POJO or the fields' names; a name may occur
    several times. `subclasses` are those of a POJO that `PojoSerializer` was not told of but met: by class name, None
    where only the name was kept. `own` are the bytes of the body that belong to neither `nested` nor `subclasses`.
    """

    class_name: str
    version: int
    body: bytes
    nested: tuple[SerializerSnapshot, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    subclasses: tuple[tuple[str, SerializerSnapshot | None], ...] = ()
    own: bytes = b""

    def values(self, name: str) -> tuple[str, ...]:
        """The values of the attribute `name`, in order."""
        return tuple(value for key, value in self.attributes if key == name)

    def covers(self, other: SerializerSnapshot) -> bool:
        """Whether this is `other`, except that POJOs in it may know more subclasses, or in another order."""
        if (self.class_name, self.version) != (other.class_name, other.version):
            return False
        if self.body == other.body:
            return True
        return (
            self.own == other.own
            and len(self.nested) == len(other.nested)
            and all(map(SerializerSnapshot.covers, self.nested, other.nested))
            and self._knows_subclasses_of(other)
        )

    def _knows_subclasses_of(self, other: SerializerSnapshot) -> bool:
        mine = dict(self.subclasses)
        for name, theirs in other.subclasses:
            if name not in mine:
                return False
            own = mine[name]
            if theirs is not None and (own is None or not own.covers(theirs)):
                return False
        return True


def short_class_name(name: str) -> str:
    """Return a Java class without its package: people recognise `Tuple2`, and their own classes in full."""
    return name.rpartition(".")[2] if name.startswith(("org.apache.flink.", "scala.")) else name
