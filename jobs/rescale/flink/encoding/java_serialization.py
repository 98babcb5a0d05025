"""Reader of Java object streams (`ObjectOutputStream`).

Some parts of a snapshot are Java objects with no length in front: the properties of a checkpoint, and the types inside
the serializer snapshots of Flink's SQL. Only the grammar of the stream tells where such an object ends. Classes,
objects and strings are numbered in order of appearance; this number is their *handle*. A class is described where it
first occurs; later occurrences refer to its handle. An object's fields follow class by class, from the topmost super
class down. A class that writes its data itself (`writeObject`) adds blocks and objects up to an end mark.

The reader keeps classes, strings, enum constants and objects, with the fields that refer to them. The reader skips
numbers, the elements of arrays, and the data that `writeObject` wrote.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeAlias

from rescale.flink.encoding.binary import ByteReader, decode_modified_utf8
from rescale.text.errors import UnsupportedError

STREAM_HEADER = bytes.fromhex("aced0005")
"""`ObjectStreamConstants.STREAM_MAGIC` and `STREAM_VERSION`."""

MAX_DEPTH = 100
"""Largest depth of nested objects, in levels; in a SQL row type, each nested row takes three levels."""
MAX_SUPER_CLASSES = 32

_FIRST_HANDLE = 0x7E0000
_SERIALIZABLE, _EXTERNALIZABLE = 0x02, 0x04
_WRITE_METHOD, _BLOCK_DATA = 0x01, 0x08
_PRIMITIVE_SIZES = {"B": 1, "C": 2, "D": 8, "F": 4, "I": 4, "J": 8, "S": 2, "Z": 1}


class _TypeCode(IntEnum):
    """`ObjectStreamConstants.TC_*`: the type byte in front of every item."""

    NULL = 0x70
    REFERENCE = 0x71
    CLASS_DESCRIPTION = 0x72
    OBJECT = 0x73
    STRING = 0x74
    ARRAY = 0x75
    CLASS = 0x76
    BLOCK_DATA = 0x77
    END_BLOCK_DATA = 0x78
    LONG_BLOCK_DATA = 0x7A
    LONG_STRING = 0x7C
    PROXY_CLASS_DESCRIPTION = 0x7D
    ENUM = 0x7E


@dataclass(frozen=True, slots=True, eq=False)
class JavaClass:
    """A class as the stream describes it.

    `fields` are pairs (type code, name), and `flags` are bits of `ObjectStreamConstants.SC_*`. `super_classes` begins
    with the topmost super class.
    """

    name: str
    serial_version: int
    flags: int
    fields: tuple[tuple[str, str], ...]
    super_classes: tuple[JavaClass, ...]

    @property
    def lineage(self) -> tuple[JavaClass, ...]:
        return (*self.super_classes, self)


@dataclass(slots=True, eq=False)
class JavaObject:
    """An object or array; `fields` holds its references by name. The references may form cycles."""

    java_class: JavaClass
    fields: dict[str, JavaValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JavaEnum:
    """A constant of an enum."""

    class_name: str
    constant: str


JavaValue: TypeAlias = str | JavaClass | JavaObject | JavaEnum | None


def read_java_object(reader: ByteReader) -> JavaValue:
    """Return the only object of the stream at the cursor, and move the cursor past the stream.

    Raises `SnapshotError` for bytes that are no object stream, and `UnsupportedError` for a stream without a known end.
    """
    at = reader.position
    header = reader.raw(len(STREAM_HEADER))
    if header != STREAM_HEADER:
        raise reader.error("not a Java object stream", at=at, expected=STREAM_HEADER.hex(), found=header.hex())
    return _ObjectStream(reader).value()


class _ObjectStream:
    """Reader of an object stream after its header.

    `items` has the numbered items; None for an item that is not complete yet.
    """

    def __init__(self, reader: ByteReader) -> None:
        self.reader = reader
        self.items: list[JavaValue] = []
        self.depth = 0

    def value(self) -> JavaValue:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.reader.error("Java objects are nested too deep", expected=f"at most {MAX_DEPTH} levels")
        value = self._unguarded_value()
        self.depth -= 1
        return value

    def _unguarded_value(self) -> JavaValue:
        at = self.reader.position
        match self.reader.u8():
            case _TypeCode.NULL:
                return None
            case _TypeCode.REFERENCE:
                return self._referenced()
            case _TypeCode.STRING:
                return self._with_handle(self.reader.utf())
            case _TypeCode.LONG_STRING:
                return self._with_handle(self._long_text())
            case _TypeCode.OBJECT:
                return self._object()
            case _TypeCode.ARRAY:
                return self._array()
            case _TypeCode.ENUM:
                return self._enum()
            case _TypeCode.CLASS:
                java_class = self._class()
                self.items.append(java_class)
                return java_class
            case _TypeCode.CLASS_DESCRIPTION:
                return self._described_class()
            case _TypeCode.PROXY_CLASS_DESCRIPTION:
                return self._proxy_class()
        raise self.reader.error("not the beginning of a Java object", at=at, found=f"0x{self.reader.data[at]:02x}")

    def _referenced(self) -> JavaValue:
        at = self.reader.position
        handle = self.reader.i32() - _FIRST_HANDLE
        if not 0 <= handle < len(self.items) or self.items[handle] is None:
            raise self.reader.error("a reference to a Java object that was not read yet", at=at)
        return self.items[handle]

    def _reserve_handle(self) -> int:
        """Reserve the next handle for an item, and return it; call this before the items inside are read."""
        self.items.append(None)
        return len(self.items) - 1

    def _with_handle(self, text: str) -> str:
        self.items.append(text)
        return text

    def _long_text(self) -> str:
        at = self.reader.position
        try:
            return decode_modified_utf8(self.reader.raw(self.reader.i64()))
        except UnicodeError as error:
            raise self.reader.error(f"not a string in modified UTF-8 ({error})", at=at) from None

    def _string_value(self) -> str:
        at = self.reader.position
        text = self.value()
        if not isinstance(text, str):
            raise self.reader.error("not a Java string", at=at)
        return text

    def _object(self) -> JavaObject:
        java_class = self._class()
        instance = JavaObject(java_class)
        self.items.append(instance)
        if java_class.flags & _EXTERNALIZABLE:
            self._skip_external(java_class)
            return instance
        for class_of_lineage in java_class.lineage:
            if class_of_lineage.flags & _SERIALIZABLE:
                self._read_fields(class_of_lineage, instance)
                if class_of_lineage.flags & _WRITE_METHOD:
                    self._skip_annotations()
        return instance

    def _read_fields(self, java_class: JavaClass, instance: JavaObject) -> None:
        for type_code, name in java_class.fields:
            if type_code in _PRIMITIVE_SIZES:
                self.reader.raw(_PRIMITIVE_SIZES[type_code])
            else:
                instance.fields[name] = self.value()

    def _skip_external(self, java_class: JavaClass) -> None:
        if not java_class.flags & _BLOCK_DATA:
            raise UnsupportedError(
                f"a Java object of {java_class.name} in the old Externalizable format, which has no end mark",
                path=self.reader.path,
                offset=self.reader.position,
            )
        self._skip_annotations()

    def _skip_annotations(self) -> None:
        """Read blocks and objects up to the end mark."""
        reader = self.reader
        while True:
            at = reader.position
            match reader.u8():
                case _TypeCode.END_BLOCK_DATA:
                    return
                case _TypeCode.BLOCK_DATA:
                    reader.raw(reader.u8())
                case _TypeCode.LONG_BLOCK_DATA:
                    reader.raw(reader.i32())
                case _:
                    reader.position = at
                    self.value()

    def _array(self) -> JavaObject:
        at = self.reader.position
        java_class = self._class()
        instance = JavaObject(java_class)
        self.items.append(instance)
        match java_class.name[:2]:
            case "[L" | "[[":
                for _ in range(self.reader.count(item_size=1)):
                    self.value()
            case array_class if array_class[:1] == "[" and array_class[1:] in _PRIMITIVE_SIZES:
                item_size = _PRIMITIVE_SIZES[array_class[1:]]
                self.reader.raw(item_size * self.reader.count(item_size=item_size))
            case _:
                raise self.reader.error("not the class of a Java array", at=at, found=java_class.name)
        return instance

    def _enum(self) -> JavaEnum:
        java_class = self._class()
        handle = self._reserve_handle()
        constant = JavaEnum(java_class.name, self._string_value())
        self.items[handle] = constant
        return constant

    def _class(self) -> JavaClass:
        at = self.reader.position
        java_class = self.value()
        if not isinstance(java_class, JavaClass):
            raise self.reader.error("not a Java class", at=at)
        return java_class

    def _described_class(self) -> JavaClass:
        name, serial_version = self.reader.utf(), self.reader.i64()
        handle = self._reserve_handle()
        flags = self.reader.u8()
        field_count = self.reader.non_negative(self.reader.i16, "number of fields")
        fields = tuple(self._field() for _ in range(field_count))
        return self._finish_class(handle, name, serial_version, flags, fields)

    def _proxy_class(self) -> JavaClass:
        handle = self._reserve_handle()
        interfaces = [self.reader.utf() for _ in range(self.reader.count(item_size=2))]
        return self._finish_class(handle, f"a proxy of {', '.join(interfaces)}", 0, _SERIALIZABLE, ())

    def _finish_class(
        self, handle: int, name: str, serial_version: int, flags: int, fields: tuple[tuple[str, str], ...]
    ) -> JavaClass:
        """Read the rest of a class description: annotations and super class. Return the class, which gets `handle`."""
        self._skip_annotations()
        at = self.reader.position
        super_class = self.value()
        if super_class is not None and not isinstance(super_class, JavaClass):
            raise self.reader.error("not a Java class", at=at)
        super_classes = () if super_class is None else super_class.lineage
        if len(super_classes) > MAX_SUPER_CLASSES:
            raise self.reader.error("too many super classes", at=at, expected=f"at most {MAX_SUPER_CLASSES}")
        java_class = JavaClass(name, serial_version, flags, fields, super_classes)
        self.items[handle] = java_class
        return java_class

    def _field(self) -> tuple[str, str]:
        at = self.reader.position
        type_code = chr(self.reader.u8())
        name = self.reader.utf()
        if type_code in "L[":
            self._string_value()
        elif type_code not in _PRIMITIVE_SIZES:
            raise self.reader.error("not a Java type", at=at, expected="one of BCDFIJSZL[", found=repr(type_code))
        return type_code, name
