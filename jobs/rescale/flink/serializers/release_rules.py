"""Says whether another release of Flink restores the state of a serializer, by the classes in its snapshot.

A header names the classes of its serializer snapshots. A release loads these classes before it restores any state
(`TypeSerializerSnapshotSerializationUtil`). Then the job's own serializer decides whether it accepts the snapshot
(`resolveSchemaCompatibility`). Every release line reads all versions of the classes that it has. So two questions
remain: does the line have the class, and does its serializer still read the same bytes? Kryo's serializer does not read
the same bytes: Flink 1 has Kryo 2.24, and Flink 2 has Kryo 5.6 (FLINK-3154). The formats of the two Kryos differ, but
Flink 1 and Flink 2 both write `KryoSerializerSnapshot` of version 2, so Flink 2 accepts the state without an error.

A rule holds for every job whose types did not change. An outcome that depends on more than the snapshot is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from rescale.flink.release_line import FIRST_OF_FLINK_2, LAST_OF_FLINK_1, ReleaseLine
from rescale.flink.serializers.registry import FLINK_ROWS, row_of
from rescale.flink.serializers.snapshot import ABANDONED, UNKNOWN, SerializerSnapshot, short_class_name

_HEADER_CLASS = "TypeSerializerSnapshotSerializationUtil"


class Restores(StrEnum):
    """Whether a release restores state with unchanged content; the best outcome comes first."""

    YES = "yes"
    UNKNOWN = "unknown"
    NO = "no"


class Reason(NamedTuple):
    """Reason why state is not restored, or might not be.

    `flink_class` is the class of Flink that determines this, and `way` says what users can do.
    """

    restores: Restores
    why: str
    flink_class: str
    way: str

    @property
    def fails_whole_header(self) -> bool:
        """Whether the whole header cannot be read, so that none of its states is restored."""
        return self.flink_class == _HEADER_CLASS


_PACKAGES_OF_FLINK = tuple(
    f"org.apache.flink.{package}"
    for package in (
        "api.",
        "runtime.",
        "streaming.api.",
        "streaming.runtime.",
        "table.runtime.",
        "table.dataview.",
        "cep.",
    )
)
"""Packages of Flink's distribution; classes of connectors are in the job's jar."""

_OLD_CLASS_ADVICE = (
    f"start the job from this snapshot on Flink {LAST_OF_FLINK_1}, or on an older Flink that reads it, and take a "
    "savepoint with that Flink"
)

_BUILT_IN_TO_FLINK_2 = frozenset(f"java.util.{name}" for name in ("Collection", "List", "Map", "Set"))
"""Classes for which Flink 2 has its own serializers; Flink 1 used Kryo (`TypeExtractor`, FLIP-398)."""

_READ_DIFFERENTLY_BY_KRYO_5 = frozenset(
    [
        *(f"java.util.{name}" for name in ("ArrayList", "LinkedList", "ArrayDeque", "Vector", "BitSet", "UUID")),
        *(f"java.util.{kind}{collection}" for kind in ("Hash", "LinkedHash", "Tree") for collection in ("Map", "Set")),
        *("java.util.concurrent.ConcurrentHashMap", "java.lang.Double", "java.lang.Float"),
        *(f"java.time.{name}" for name in ("Duration", "Instant", "LocalDate", "LocalDateTime", "LocalTime")),
        *(f"java.time.{name}" for name in ("OffsetDateTime", "Period", "Year", "ZonedDateTime")),
    ]
)
"""Classes of Java for which Kryo 5 reads other values than Kryo 2 wrote, or fails."""

ANOTHER_SERIALIZER = (
    "in the job on Flink 1.x, copy the values into a state with another name, whose TypeInformation avoids Kryo "
    "(Types.LIST, Types.MAP, a POJO, Avro), and then take the savepoint"
)


def reasons(snapshot: SerializerSnapshot, writer_major: int, line: ReleaseLine) -> Iterator[Reason]:
    """Yield the reasons why `line` might not restore what a serializer of Flink 1 or 2 (`writer_major`) wrote."""
    row = row_of(snapshot.class_name)
    yield from class_reasons(snapshot.class_name, line)
    if row is None or snapshot.values(UNKNOWN):
        yield missing_class_reason((*snapshot.values(UNKNOWN), snapshot.class_name)[0], line)
        return
    for last_release in snapshot.values(ABANDONED):
        yield _abandoned_form_reason(snapshot, last_release, line)
    if row.other_bytes_in_flink_2 and writer_major != line.major:
        yield _kryo_reason(snapshot.values("class")[0])
    for nested in (*snapshot.nested, *(subclass for _, subclass in snapshot.subclasses if subclass is not None)):
        yield from reasons(nested, writer_major, line)


def missing_class_reason(class_name: str, line: ReleaseLine) -> Reason:
    """Return why `line` might not restore a header with a snapshot whose class or version has no row (`Serializer`)."""
    return next(
        class_reasons(class_name, line),
        _old_class_reason(class_name, line)
        if class_name.startswith(_PACKAGES_OF_FLINK)
        else Reason(
            Restores.UNKNOWN,
            f"the serializer snapshot {class_name} is no class of Flink: Flink {line} restores the state if the job "
            "contains this class, in a version for this Flink",
            _HEADER_CLASS,
            "test the restore with the job for that Flink; or drop the state",
        ),
    )


def class_reasons(class_name: str, line: ReleaseLine) -> Iterator[Reason]:
    """Yield why `line` does not have, or might not have, a class of the registry; nothing if it has the class."""
    row = row_of(class_name)
    if row is None:
        return
    is_of_flink = class_name in FLINK_ROWS
    if is_of_flink and not row.since <= line <= row.until:
        yield Reason(
            Restores.NO,
            f"Flink {line} has no {row.snapshot}, which exists "
            + (f"from {row.since} on" if line < row.since else f"up to {row.until}")
            + "; the restore fails before any state of the operator is read",
            _HEADER_CLASS,
            row.way or f"in the job on Flink 1.x, use serializers that Flink {line} has",
        )
    if row.jar is not None or not is_of_flink:
        yield Reason(
            Restores.UNKNOWN,
            f"{short_class_name(row.snapshot)} is not in Flink's distribution: the outcome depends on the jar that the "
            "job brings",
            row.snapshot,
            f"use the release of that jar for Flink {line} and test the restore",
        )


def _old_class_reason(class_name: str, line: ReleaseLine) -> Reason:
    """Return the reason for a class of Flink without a row (`Serializer`); lines from 2.0 on have no such class."""
    if line >= FIRST_OF_FLINK_2:
        return Reason(
            Restores.NO,
            f"Flink {line} has no {class_name}, a class of an older Flink; the restore fails before any state of the "
            "operator is read",
            _HEADER_CLASS,
            _OLD_CLASS_ADVICE,
        )
    return Reason(
        Restores.UNKNOWN,
        f"{class_name} is a class of an older Flink, and it is unknown whether Flink {line} still has it",
        _HEADER_CLASS,
        _OLD_CLASS_ADVICE,
    )


def _abandoned_form_reason(snapshot: SerializerSnapshot, last_release: str, line: ReleaseLine) -> Reason:
    name = short_class_name(snapshot.class_name)
    return Reason(
        Restores.NO,
        f"Flink {last_release} wrote this {name} in a form that later releases do not read, Flink {line} among them",
        _HEADER_CLASS,
        f"start the job once on Flink {last_release} without this state; or drop the state",
    )


def _kryo_reason(class_name: str) -> Reason:
    if class_name in _BUILT_IN_TO_FLINK_2:
        return Reason(
            Restores.NO,
            f"Kryo 2 wrote {class_name}, for which Flink 2 has its own serializer: Flink 2 refuses the state as "
            "incompatible, and would read wrong values if forced to use Kryo",
            "TypeExtractor",
            ANOTHER_SERIALIZER,
        )
    if class_name in _READ_DIFFERENTLY_BY_KRYO_5:
        return Reason(
            Restores.NO,
            f"Kryo 2 wrote {class_name}, whose bytes Kryo 5 reads differently: Flink 2 accepts the state without an "
            "error, and later reads wrong values or fails at a value",
            "KryoSerializerSnapshot",
            ANOTHER_SERIALIZER,
        )
    return Reason(
        Restores.UNKNOWN,
        f"Kryo 2 wrote {class_name}, and Flink 2 reads it with Kryo 5 without an error: strings and integers are read "
        "correctly, but floating-point numbers, collections, enums and classes of java.time are not. The snapshot does "
        "not say which of these types the values contain",
        "KryoSerializerSnapshot",
        ANOTHER_SERIALIZER,
    )
