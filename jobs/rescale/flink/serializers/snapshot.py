"""A serializer snapshot as a tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rescale.text.errors import UnsupportedError

UNKNOWN = "unknown"
"""Name of an attribute of a snapshot whose body was skipped: it or a nested snapshot has an unknown class or version.

The value is the name of this class.
"""


ABANDONED = "abandoned"
"""Name of an attribute of a snapshot in a form that Flink no longer reads.

The value is the last release that reads this form.
"""

KRYO_SNAPSHOT = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"

KRYO = "kryo"
"""Name of an attribute of a `KRYO_SNAPSHOT`, whose bytes do not tell the version of Kryo.

The value is the major version of the writer's Kryo.
"""

OWN_KRYO_SERIALIZER = "own serializer"
"""Name of an attribute of a Kryo snapshot; the value is a class that the job registered with its own serializer."""


class UnknownSerializerError(UnsupportedError):
    """The class or version of a snapshot has an unknown layout, so the end of the snapshot is unknown.

    When pickled, this error becomes a plain `UnsupportedError`.
    """

    def __init__(self, class_name: str, version: int, path: str, offset: int) -> None:
        super().__init__(
            f"version {version} of the serializer snapshot {class_name} is unknown",
            path=path,
            offset=offset,
            advice="change only the parallelism: then keys and values are not read, and serializers are not needed",
        )
        self.class_name = class_name


@dataclass(frozen=True)
class SerializerSnapshot:
    """A serializer snapshot; `body` has its bytes after the version, including those of nested snapshots.

    `attributes` are values that the class stores by name, such as the class of a POJO or the names of its fields; a
    name may occur several times. `subclasses` are pairs (class name, snapshot) of unregistered subclasses of a POJO
    that `PojoSerializer` met; the snapshot is None if only the name was kept. `own_bytes` are the bytes of the body
    outside `nested` and `subclasses`.
    """

    class_name: str
    version: int
    body: bytes
    nested: tuple[SerializerSnapshot, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    subclasses: tuple[tuple[str, SerializerSnapshot | None], ...] = ()
    own_bytes: bytes = b""

    def values(self, name: str) -> tuple[str, ...]:
        """Return the values of the attribute `name`, in order."""
        return tuple(value for key, value in self.attributes if key == name)

    def with_kryo(self, version: int) -> SerializerSnapshot:
        """Return the snapshot with the attribute `KRYO` in every snapshot of Kryo: itself and nested ones.

        The value is `version`, the major version of Kryo; a snapshot that already has the attribute keeps it.
        """
        added_attributes = ((KRYO, str(version)),) if self.class_name == KRYO_SNAPSHOT and not self.values(KRYO) else ()
        nested = tuple(nested_snapshot.with_kryo(version) for nested_snapshot in self.nested)
        return replace(self, nested=nested, attributes=(*self.attributes, *added_attributes))

    def covers(self, other: SerializerSnapshot) -> bool:
        """Whether this snapshot equals `other`, except that its POJOs may know more subclasses, in any order."""
        if (self.class_name, self.version) != (other.class_name, other.version):
            return False
        if self.body == other.body:
            return True
        return (
            self.own_bytes == other.own_bytes
            and len(self.nested) == len(other.nested)
            and all(map(SerializerSnapshot.covers, self.nested, other.nested))
            and self._knows_subclasses_of(other)
        )

    def _knows_subclasses_of(self, other: SerializerSnapshot) -> bool:
        own_subclasses = dict(self.subclasses)
        for name, other_snapshot in other.subclasses:
            if name not in own_subclasses:
                return False
            own_snapshot = own_subclasses[name]
            if other_snapshot is not None and (own_snapshot is None or not own_snapshot.covers(other_snapshot)):
                return False
        return True


def short_class_name(name: str) -> str:
    """Return the name of a class of Flink or Scala without its package; other names are returned in full."""
    return name.rpartition(".")[2] if name.startswith(("org.apache.flink.", "scala.")) else name
