"""A serializer snapshot as a tree."""

from __future__ import annotations

from dataclasses import dataclass

from rescale.errors import UnsupportedError


class UnknownSerializer(UnsupportedError):
    """A snapshot of a class whose layout is not known: what stands behind it cannot be found."""


@dataclass(frozen=True)
class SerializerSnapshot:
    """`class_name` is the snapshot's class; `body` its bytes after the version, those of `nested` included.

    `attributes` are what the class stores by name, such as the class of a POJO or the fields' names; a name may occur
    several times.
    """

    class_name: str
    version: int
    body: bytes
    nested: tuple[SerializerSnapshot, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()

    def values(self, name: str) -> tuple[str, ...]:
        """The values of the attribute `name`, in order."""
        return tuple(value for key, value in self.attributes if key == name)
