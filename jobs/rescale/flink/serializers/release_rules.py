"""Rules that say whether another release of Flink restores a serializer, by the classes of its snapshot.

A header names these classes, and the release that restores loads them before it reads any state
(`TypeSerializerSnapshotSerializationUtil`); then the job's own serializer decides whether it takes what the snapshot's
one wrote (`resolveSchemaCompatibility`). Every line reads all versions of the classes that it has, so that it matters
only whether the class is there, and whether what it stands for still reads the same bytes. The latter is not
so for Kryo: Flink 1 has version 2.24 and Flink 2 has 5.6 (FLINK-3154), whose formats
differ, and both call themselves `KryoSerializerSnapshot` of version 2: Flink 2 takes the state without an error.

A rule knows what always happens to a job whose types stay what they were. What depends on things that are not in the
bytes is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from rescale.flink.release_line import FIRST_OF_FLINK_2, LAST_OF_FLINK_1, ReleaseLine
from rescale.flink.serializers.registry import FLINK, row_of
from rescale.flink.serializers.snapshot import ABANDONED, UNKNOWN, SerializerSnapshot, short_class_name

_HEADER = "TypeSerializerSnapshotSerializationUtil"


class Restores(StrEnum):
    """Whether a release restores something with the content that it had, from the best to the worst."""

    YES = "yes"
    UNKNOWN = "unknown"
    NO = "no"


class Reason(NamedTuple):
    """Why something is not restored, or why nobody knows. `rule` is Flink's class that it comes from."""

    restores: Restores
    why: str
    rule: str
    way: str

    @property
    def fails_all(self) -> bool:
        """Whether a header with it cannot be read, so that nothing is restored that it describes."""
        return self.rule == _HEADER


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
"""Packages of Flink's distribution; a connector's classes come with the job."""

_OLD_CLASS_WAY = (
    f"start the job from it on Flink {LAST_OF_FLINK_1}, or on an older one that reads it, and take a savepoint there"
)

_BUILT_IN = frozenset(f"java.util.{name}" for name in ("Collection", "List", "Map", "Set"))
"""Classes that Flink 2 has serializers of its own for, where Flink 1 took Kryo (`TypeExtractor`, FLIP-398)."""

_OTHERWISE_IN_KRYO_5 = frozenset(
    [
        *(f"java.util.{name}" for name in ("ArrayList", "LinkedList", "ArrayDeque", "Vector", "BitSet", "UUID")),
        *(f"java.util.{kind}{of}" for kind in ("Hash", "LinkedHash", "Tree") for of in ("Map", "Set")),
        *("java.util.concurrent.ConcurrentHashMap", "java.lang.Double", "java.lang.Float"),
        *(f"java.time.{name}" for name in ("Duration", "Instant", "LocalDate", "LocalDateTime", "LocalTime")),
        *(f"java.time.{name}" for name in ("OffsetDateTime", "Period", "Year", "ZonedDateTime")),
    ]
)
"""Classes of Java whose bytes Kryo 5 reads as something else."""

ANOTHER_SERIALIZER = (
    "in the job on Flink 1.x copy it into a state of another name whose type needs no Kryo (with TypeInformation that "
    "says so: Types.LIST, Types.MAP, a POJO, Avro), and take the savepoint then"
)


def reasons(snapshot: SerializerSnapshot, writer: int, line: ReleaseLine) -> Iterator[Reason]:
    """Yield why `line` does not restore what a serializer of Flink `writer` wrote; the first one decides."""
    row = row_of(snapshot.class_name)
    yield from class_reasons(snapshot.class_name, line)
    if row is None or snapshot.values(UNKNOWN):
        yield missing_class((*snapshot.values(UNKNOWN), snapshot.class_name)[0], line)
        return
    for last in snapshot.values(ABANDONED):
        yield _of_an_abandoned_form(snapshot, last, line)
    if row.other_bytes_in_flink_2 and writer != line.major:
        yield _of_kryo(snapshot.values("class")[0])
    for inner in (*snapshot.nested, *(subclass for _, subclass in snapshot.subclasses if subclass is not None)):
        yield from reasons(inner, writer, line)


def missing_class(class_name: str, line: ReleaseLine) -> Reason:
    """Return the outcome of a header with a snapshot class, or a version of one, that has no row in the registry."""
    return next(
        class_reasons(class_name, line),
        _of_an_old_class(class_name, line)
        if class_name.startswith(_PACKAGES_OF_FLINK)
        else Reason(
            Restores.UNKNOWN,
            f"the serializer snapshot {class_name} is not one of Flink's own: Flink {line} restores it if the job "
            "brings the class along, in a version for this Flink",
            _HEADER,
            "try it with the job that shall run; or drop it",
        ),
    )


def class_reasons(class_name: str, line: ReleaseLine) -> Iterator[Reason]:
    """Yield why `line` does not have a class of the registry, or why nobody knows; nothing if it has it."""
    row = row_of(class_name)
    if row is None:
        return
    is_flinks = class_name in FLINK
    if is_flinks and not row.since <= line <= row.until:
        yield Reason(
            Restores.NO,
            f"Flink {line} has no {row.snapshot}, which is there "
            + (f"from {row.since} on" if line < row.since else f"up to {row.until}")
            + "; it fails before it reads any state of the operator",
            _HEADER,
            row.way or f"in the job on Flink 1.x take serializers that Flink {line} has",
        )
    if row.jar is not None or not is_flinks:
        yield Reason(
            Restores.UNKNOWN,
            f"{short_class_name(row.snapshot)} is not in Flink's distribution: it depends on the jar that the job "
            "brings",
            row.snapshot,
            f"take the release of that jar which is for Flink {line}, and try it",
        )


def _of_an_old_class(class_name: str, line: ReleaseLine) -> Reason:
    """Reason for a class of Flink's own that no line from 2.0 on has: the registry has all of theirs."""
    if line >= FIRST_OF_FLINK_2:
        return Reason(
            Restores.NO,
            f"Flink {line} has no {class_name}, a class of an older Flink; it fails before it reads any state of the "
            "operator",
            _HEADER,
            _OLD_CLASS_WAY,
        )
    return Reason(
        Restores.UNKNOWN,
        f"{class_name} is a class of an older Flink, and it is not known whether Flink {line} still has it",
        _HEADER,
        _OLD_CLASS_WAY,
    )


def _of_an_abandoned_form(snapshot: SerializerSnapshot, last: str, line: ReleaseLine) -> Reason:
    name = short_class_name(snapshot.class_name)
    return Reason(
        Restores.NO,
        f"Flink {last} wrote this {name} in a form that later releases do not read, Flink {line} among them",
        _HEADER,
        f"start the job once on Flink {last} without this state; or drop it",
    )


def _of_kryo(class_name: str) -> Reason:
    if class_name in _BUILT_IN:
        return Reason(
            Restores.NO,
            f"Kryo 2 wrote {class_name}, for which Flink 2 has a serializer of its own: it calls them incompatible, "
            "and told to take Kryo it would read other values",
            "TypeExtractor",
            ANOTHER_SERIALIZER,
        )
    if class_name in _OTHERWISE_IN_KRYO_5:
        return Reason(
            Restores.NO,
            f"Kryo 2 wrote {class_name}, whose bytes Kryo 5 reads otherwise: Flink 2 takes it without an error, and "
            "finds other values or fails at one of them",
            "KryoSerializerSnapshot",
            ANOTHER_SERIALIZER,
        )
    return Reason(
        Restores.UNKNOWN,
        f"Kryo 2 wrote {class_name}, and Flink 2 reads it with Kryo 5 without an error: texts and whole numbers come "
        "out as they were; floating-point numbers, collections, enums and what is of java.time do not. Which of them "
        "it holds is not in the snapshot",
        "KryoSerializerSnapshot",
        ANOTHER_SERIALIZER,
    )
