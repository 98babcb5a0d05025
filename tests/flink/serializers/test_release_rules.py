"""What another release of Flink makes of serializers. That the rules are true, real Flink shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.release_line import RELEASE_LINES, ReleaseLine, major_of_writer
from rescale.flink.serializers.registry import KNOWN_TYPES
from rescale.flink.serializers.release_rules import CLASSES, Reason, Restores, missing_class, reasons
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot

RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
LONG = SerializerSnapshot("org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot", 3, b"")
OPTION = SerializerSnapshot("org.apache.flink.api.scala.typeutils.ScalaOptionSerializerSnapshot", 3, b"", (LONG,))
V1, V2 = ReleaseLine(1, 20), ReleaseLine(2, 3)


def kryo(class_name: str) -> SerializerSnapshot:
    return SerializerSnapshot(f"{RUNTIME}kryo.KryoSerializerSnapshot", 2, b"", attributes=(("class", class_name),))


def pojo(*fields: SerializerSnapshot, **subclasses: SerializerSnapshot) -> SerializerSnapshot:
    return SerializerSnapshot(
        f"{RUNTIME}PojoSerializerSnapshot", 2, b"", fields, (("class", "com.x.P"),), tuple(subclasses.items())
    )


def found(snapshot: SerializerSnapshot, writer: int, line: ReleaseLine) -> list[Reason]:
    return list(reasons(snapshot, writer, line))


@pytest.mark.parametrize(
    ("class_name", "restores", "rule"),
    [
        ("java.util.List", Restores.NO, "TypeExtractor"),
        ("java.util.ArrayList", Restores.NO, "KryoSerializerSnapshot"),
        ("java.util.TreeMap", Restores.NO, "KryoSerializerSnapshot"),
        ("java.time.LocalDate", Restores.NO, "KryoSerializerSnapshot"),
        ("com.example.Money", Restores.UNKNOWN, "KryoSerializerSnapshot"),
    ],
)
def test_what_kryo_2_wrote(class_name: str, restores: Restores, rule: str) -> None:
    wrapped = (lambda one: one, pojo, lambda one: pojo(LONG, pojo(one)), lambda one: pojo(LONG, sub=one))
    for wrap in wrapped:
        (reason,) = found(wrap(kryo(class_name)), 1, V2)
        assert (reason.restores, reason.rule) == (restores, rule)
        assert class_name in reason.why
        assert reason.way
        assert found(wrap(kryo(class_name)), 1, V1) == []
        assert found(wrap(kryo(class_name)), 2, V2) == []


def test_what_is_the_same_everywhere() -> None:
    for line in RELEASE_LINES:
        assert found(pojo(LONG), 1, line) == found(LONG, 1, line) == []


def test_a_class_that_a_line_lacks() -> None:
    (reason,) = found(pojo(OPTION), 1, V2)
    assert (reason.restores, reason.fails_all) == (Restores.NO, True)
    assert f"Flink 2.3 has no {OPTION.class_name}, which is there up to 1.20" in reason.why
    assert found(OPTION, 1, V1) == []
    hidden = SerializerSnapshot("com.x.Mine", 1, b"", attributes=((UNKNOWN, "com.x.Mine"),))
    (reason,) = found(pojo(hidden), 1, V2)
    assert reason.restores is Restores.UNKNOWN
    assert "com.x.Mine is not one of Flink's own" in reason.why


def test_a_class_that_came_later() -> None:
    bitmap = "org.apache.flink.api.common.typeutils.base.BitmapSerializer$BitmapSerializerSnapshot"
    assert "which is there from 2.3 on" in missing_class(bitmap, ReleaseLine(2, 2)).why
    assert missing_class(bitmap, ReleaseLine(2, 2)).restores is Restores.NO
    assert found(SerializerSnapshot(bitmap, 3, b""), 2, V2) == []


def test_what_comes_in_a_jar_of_the_job_is_unknown() -> None:
    avro = SerializerSnapshot("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot", 3, b"")
    assert [reason.restores for reason in found(avro, 1, V2)] == [Restores.UNKNOWN]
    option = replace(OPTION, class_name="org.apache.flink.table.api.typeutils.ScalaOptionSerializerSnapshot")
    assert [reason.restores for reason in found(option, 2, V2)] == [Restores.UNKNOWN]
    assert found(option, 2, V1)[0].restores is Restores.NO


def test_an_older_form_of_a_snapshot_is_unknown() -> None:
    older = replace(LONG, version=2)
    for line in (V1, V2):
        (reason,) = found(pojo(older), 1, line)
        assert (reason.restores, reason.rule) == (Restores.UNKNOWN, "LongSerializer$LongSerializerSnapshot")


def test_every_row_is_of_a_class_that_is_known() -> None:
    assert all(any(name.startswith(beginning) for name in KNOWN_TYPES) for beginning in CLASSES)


@pytest.mark.parametrize(("line", "version"), [("1.18", 4), ("1.20", 4), ("2.0", 5), ("2.1", 6), ("2.3", 6)])
def test_the_metadata_that_a_line_reads(line: str, version: int) -> None:
    (release,) = (one for one in RELEASE_LINES if str(one) == line)
    assert release.metadata_version == version
    assert major_of_writer(version) == release.major
