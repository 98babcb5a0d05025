"""What another release of Flink makes of a serializer: rules by the classes of the serializer's snapshot.

A header names these classes, and the release that restores loads them before it reads any state
(`TypeSerializerSnapshotSerializationUtil`); then the job's own serializer decides whether it takes what the snapshot's
one wrote (`resolveSchemaCompatibility`). All lines from 1.18 on write the same versions of the snapshots, the newest
ones that are known, so that it matters only whether the class is there, and whether what it stands for still reads the
same bytes. The latter is not so for Kryo: Flink 1 has version 2.24 and Flink 2 has 5.6 (FLINK-3154), whose formats
differ, and both call themselves `KryoSerializerSnapshot` of version 2: Flink 2 takes the state without an error.

A rule knows what always happens to a job whose types stay what they were. What depends on things that are not in the
bytes is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from rescale.flink.release_line import FIRST_OF_FLINK_2, LAST_OF_FLINK_1, RELEASE_LINES, ReleaseLine
from rescale.flink.serializers.registry import KNOWN_TYPES, short_class_name
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot

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


class Lines(NamedTuple):
    """The release lines that have a class, both ends included."""

    first: ReleaseLine = RELEASE_LINES[0]
    last: ReleaseLine = RELEASE_LINES[-1]


_UNTIL_1 = Lines(last=LAST_OF_FLINK_1)
_SINCE_2 = Lines(first=FIRST_OF_FLINK_2)
_SINCE_2_1, _SINCE_2_2, _SINCE_2_3 = (Lines(first=ReleaseLine(2, minor)) for minor in (1, 2, 3))

_SCALA, _SCALA_OF_TABLES = "org.apache.flink.api.scala.", "org.apache.flink.table.api.typeutils."
_SINK = "org.apache.flink.streaming.api.functions.sink."
_BASE = "org.apache.flink.api.common.typeutils.base."
_TABLE = "org.apache.flink.table.runtime."
_NODE = "org.apache.flink.cep.nfa.sharedbuffer.SharedBufferNode$SharedBufferNodeSerializer"

CLASSES: dict[str, Lines] = {
    _SCALA: _UNTIL_1,
    _SCALA_OF_TABLES: _SINCE_2,
    f"{_SINK}TwoPhaseCommitSinkFunction$": _UNTIL_1,
    f"{_SINK}legacy.TwoPhaseCommitSinkFunction$": _SINCE_2,
    f"{_NODE}$": _UNTIL_1,
    f"{_BASE}SetSerializerSnapshot": _SINCE_2,
    "org.apache.flink.runtime.state.v2.ttl.": _SINCE_2,
    "org.apache.flink.runtime.state.ttl.TtlAwareSerializerSnapshot": _SINCE_2,
    f"{_TABLE}operators.window.GlobalWindow$": _SINCE_2,
    f"{_BASE}VariantSerializer$": _SINCE_2_1,
    f"{_TABLE}sequencedmultisetstate.": _SINCE_2_2,
    f"{_BASE}BitmapSerializer$": _SINCE_2_3,
    f"{_TABLE}operators.sink.SortedLongSerializer$": _SINCE_2_3,
}
"""By the beginning of the name of a snapshot's class: those that not every line has."""

APART = (
    "org.apache.flink.formats.avro.",
    "org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer$",
    _SCALA_OF_TABLES,
)
"""Snapshot classes that are known and not in Flink's distribution, but in jars that a job brings along."""

_KRYO = "org.apache.flink.api.java.typeutils.runtime.kryo.KryoSerializerSnapshot"

_BUILT_IN = frozenset(f"java.util.{name}" for name in ("Collection", "List", "Map", "Set"))
"""What Flink 2 has serializers of its own for where Flink 1 took Kryo (`TypeExtractor`, FLIP-398)."""

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
    """Why `line` does not restore what a serializer of Flink `writer` wrote, the first one decides; none if it does."""
    yield from _of_class(snapshot.class_name, line)
    for unknown in snapshot.values(UNKNOWN):
        yield missing_class(unknown, line)
        return
    if snapshot.version < max(KNOWN_TYPES[snapshot.class_name].versions):
        yield _of_an_older_form(snapshot)
    if snapshot.class_name == _KRYO and writer != line.major:
        yield _of_kryo(snapshot.values("class")[0])
    for inner in (*snapshot.nested, *(subclass for _, subclass in snapshot.subclasses if subclass is not None)):
        yield from reasons(inner, writer, line)


def missing_class(class_name: str, line: ReleaseLine) -> Reason:
    """What becomes of a header with a snapshot class that has no row in the registry."""
    return next(
        _of_class(class_name, line),
        Reason(
            Restores.UNKNOWN,
            f"the serializer snapshot {class_name} is not one of Flink's own: Flink {line} restores it if the job "
            "brings the class along, in a version for this Flink",
            _HEADER,
            "try it with the job that shall run; or drop it",
        ),
    )


def _of_class(class_name: str, line: ReleaseLine) -> Iterator[Reason]:
    for beginning, lines in CLASSES.items():
        if class_name.startswith(beginning) and not lines.first <= line <= lines.last:
            yield Reason(
                Restores.NO,
                f"Flink {line} has no {class_name}, which is there "
                + (f"from {lines.first} on" if line < lines.first else f"up to {lines.last}")
                + "; it fails before it reads any state of the operator",
                _HEADER,
                _WAYS.get(beginning, f"in the job on Flink 1.x take serializers that Flink {line} has"),
            )
    if class_name.startswith(APART) and class_name in KNOWN_TYPES:
        yield Reason(
            Restores.UNKNOWN,
            f"{short_class_name(class_name)} is not in Flink's distribution: it depends on the jar that the job brings",
            class_name,
            f"take the release of that jar which is for Flink {line}, and try it",
        )


_WAYS = {
    _SCALA: (
        "in the job on Flink 1.x copy it into an operator of another uid whose types are Java's (POJOs, tuples, "
        "Types.LIST, …), and take the savepoint then"
    ),
    f"{_SINK}TwoPhaseCommitSinkFunction$": (
        "stop the job with a savepoint, so that nothing is left to commit, and leave the sink out; the new job begins "
        "with a Sink of its own"
    ),
}


def _of_an_older_form(snapshot: SerializerSnapshot) -> Reason:
    name = short_class_name(snapshot.class_name)
    return Reason(
        Restores.UNKNOWN,
        f"version {snapshot.version} of {name} is an older form than any that Flink 1.15 to {RELEASE_LINES[-1]} write, "
        "and which of them still read it is not known here",
        name,
        f"start the job once on Flink {LAST_OF_FLINK_1}, and take a savepoint there",
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
