"""Body of a serializer snapshot while it is read: a layout reads the values that its class wrote, in order.

The body also keeps the class's own bytes, which are all bytes outside of nested snapshots. Two snapshots of a class are
equivalent if their own bytes are equal and their nested snapshots are equivalent.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from rescale.flink.encoding.binary import ByteReader
from rescale.flink.encoding.java_serialization import JavaObject, read_java_object
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot, UnknownSerializerError

NESTED_MAGIC, NESTED_VERSION = 1333245, 1
"""`NestedSerializersSnapshotDelegate`."""

OPTIONAL_MAP_MAGIC = 5440760593776
"""`LinkedOptionalMapSerializer.HEADER`."""


class OptionalEntry(NamedTuple):
    """Entry of a map (`LinkedOptionalMapSerializer`).

    `value` reads the frame (the bytes after a length) of the value; None if the value is missing.
    """

    name: str
    value: ByteReader | None


def read_to_end(frame: ByteReader, read: Callable[[ByteReader], SerializerSnapshot]) -> SerializerSnapshot:
    """Return the only snapshot in `frame`; the body of an unknown snapshot is skipped, because its end is known."""
    start = frame.position
    try:
        snapshot = read(frame)
    except UnknownSerializerError as error:
        frame.position = start
        class_name, version = frame.utf(), frame.i32()
        unread_bytes = frame.raw(frame.remaining)
        return SerializerSnapshot(
            class_name, version, unread_bytes, attributes=((UNKNOWN, error.class_name),), own_bytes=unread_bytes
        )
    if frame.remaining:
        raise frame.error("bytes after a serializer snapshot in its frame", expected=0, found=frame.remaining)
    return snapshot


class Body:
    """Cursor in the body of a snapshot; its methods read the next value, and store it as the attribute `name`."""

    def __init__(
        self,
        reader: ByteReader,
        class_name: str,
        version: int,
        outer_versions: Container[int],
        read_nested: Callable[[ByteReader], SerializerSnapshot],
    ) -> None:
        self.reader = reader
        self.class_name = class_name
        self.version = version
        self._outer_versions = outer_versions
        self.attributes: list[tuple[str, str]] = []
        self.nested: list[SerializerSnapshot] = []
        self.subclasses: list[tuple[str, SerializerSnapshot | None]] = []
        self._read_nested = read_nested
        self._body_start = reader.position
        self._excluded_spans: list[tuple[int, int]] = []

    def utf(self, name: str) -> None:
        self.attributes.append((name, self.reader.utf()))

    def text(self, name: str) -> None:
        """Read a string that `StringValue.writeString` wrote; it may be longer than `writeUTF` allows."""
        self.attributes.append((name, self.reader.text()))

    def i32(self, name: str) -> None:
        self.attributes.append((name, str(self.reader.i32())))

    def flag(self, name: str) -> None:
        self.attributes.append((name, str(self.reader.boolean())))

    def blob(self, name: str) -> None:
        """Read an `i32` length and that many bytes; the attribute keeps only their number."""
        self.attributes.append((name, f"{len(self.reader.blob())} bytes"))

    def java_object(self, name: str) -> None:
        """Read a Java object stream; the attribute keeps only the class of the object."""
        value = read_java_object(self.reader)
        self.attributes.append((name, value.java_class.name if isinstance(value, JavaObject) else str(value)))

    def expect(self, number: int, what: str) -> None:
        at = self.reader.position
        actual_number = self.reader.i32()
        if actual_number != number:
            raise self.reader.error(f"not {what}", at=at, expected=number, found=actual_number)

    def outer_version(self) -> int:
        """Read and return the outer version. Raises `UnknownSerializerError` if the class has no such version."""
        at = self.reader.position
        version = self.reader.i32()
        if version not in self._outer_versions:
            raise UnknownSerializerError(self.class_name, version, self.reader.path, at)
        return version

    def snapshot(self) -> None:
        """Read a nested snapshot without a frame."""
        start = self.reader.position
        self.nested.append(self._read_nested(self.reader))
        self._excluded_spans.append((start, self.reader.position))

    def snapshots(self) -> None:
        """Read the block of nested snapshots that `NestedSerializersSnapshotDelegate` writes."""
        self.expect(NESTED_MAGIC, "a block of nested serializer snapshots")
        self.expect(NESTED_VERSION, "a known version of nested serializer snapshots")
        for _ in range(self.reader.count(item_size=6)):
            self.snapshot()

    def optional_map(self, name: str) -> list[OptionalEntry]:
        """Read a map whose keys and values lie in frames with a length, or are missing; return its entries."""
        at = self.reader.position
        magic = self.reader.i64()
        if magic != OPTIONAL_MAP_MAGIC:
            raise self.reader.error("not a map of optional entries", at=at, expected=OPTIONAL_MAP_MAGIC, found=magic)
        entries = []
        for _ in range(self.reader.count(item_size=4)):
            self.utf(name)
            if self.reader.boolean():
                self.reader.blob()
            entries.append(OptionalEntry(self.attributes[-1][1], self._read_frame() if self.reader.boolean() else None))
        return entries

    def framed_snapshot(self, entry: OptionalEntry) -> SerializerSnapshot | None:
        """Return the snapshot in the value of an entry, None if the value is missing."""
        frame = entry.value
        if frame is None:
            return None
        # The length in front of a frame is also excluded: it changes with the nested snapshot.
        self._excluded_spans.append((frame.position - 4, frame.end))
        return read_to_end(frame, self._read_nested)

    def exclude_from_own_bytes(self, start: int) -> None:
        """Exclude the bytes from `start` to the cursor from the class's own bytes."""
        self._excluded_spans = [span for span in self._excluded_spans if span[0] < start]
        self._excluded_spans.append((start, self.reader.position))

    def finish(self) -> SerializerSnapshot:
        data, end = self.reader.data, self.reader.position
        own_bytes, own_start = b"", self._body_start
        for nested_start, nested_end in self._excluded_spans:
            own_bytes += data[own_start:nested_start]
            own_start = nested_end
        return SerializerSnapshot(
            self.class_name,
            self.version,
            data[self._body_start : end],
            tuple(self.nested),
            tuple(self.attributes),
            tuple(self.subclasses),
            own_bytes + data[own_start:end],
        )

    def _read_frame(self) -> ByteReader:
        length = self.reader.count(item_size=1)
        start = self.reader.position
        self.reader.position = start + length
        return ByteReader(self.reader.data, self.reader.path, start, start + length)
