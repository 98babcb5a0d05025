"""Rules about serializers in another release of Flink; `tests/oracle` asks real Flink whether they are true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.release_line import RELEASE_LINES, ReleaseLine, major_of_writer
from rescale.flink.serializers.release_rules import Reason, Restores, missing_class_reason, reasons
from rescale.flink.serializers.snapshot import ABANDONED, UNKNOWN, SerializerSnapshot

RUNTIME = "org.apache.flink.api.java.typeutils.runtime."
LONG = SerializerSnapshot("org.apache.flink.api.common.typeutils.base.LongSerializer$LongSerializerSnapshot", 3, b"")
OPTION = SerializerSnapshot("org.apache.flink.api.scala.typeutils.ScalaOptionSerializerSnapshot", 3, b"", (LONG,))
LINE_1_20, LINE_2_3 = ReleaseLine(1, 20), ReleaseLine(2, 3)


def kryo(class_name: str) -> SerializerSnapshot:
    return SerializerSnapshot(f"{RUNTIME}kryo.KryoSerializerSnapshot", 2, b"", attributes=(("class", class_name),))


def pojo(*fields: SerializerSnapshot, **subclasses: SerializerSnapshot) -> SerializerSnapshot:
    return SerializerSnapshot(
        f"{RUNTIME}PojoSerializerSnapshot", 2, b"", fields, (("class", "com.x.P"),), tuple(subclasses.items())
    )


def reasons_of(snapshot: SerializerSnapshot, writer_major: int, line: ReleaseLine) -> list[Reason]:
    return list(reasons(snapshot, writer_major, line))


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
def test_values_of_kryo_2_have_the_rule_of_their_class(class_name: str, restores: Restores, rule: str) -> None:
    wraps = (lambda inner: inner, pojo, lambda inner: pojo(LONG, pojo(inner)), lambda inner: pojo(LONG, sub=inner))
    for wrap in wraps:
        (reason,) = reasons_of(wrap(kryo(class_name)), 1, LINE_2_3)
        assert (reason.restores, reason.flink_class) == (restores, rule)
        assert class_name in reason.why
        assert reason.way
        assert reasons_of(wrap(kryo(class_name)), 1, LINE_1_20) == []
        assert reasons_of(wrap(kryo(class_name)), 2, LINE_2_3) == []


def test_unchanged_serializers_are_restored_by_every_line() -> None:
    for line in RELEASE_LINES:
        assert reasons_of(pojo(LONG), 1, line) == reasons_of(LONG, 1, line) == []


def test_class_missing_in_a_line_is_not_restored() -> None:
    (reason,) = reasons_of(pojo(OPTION), 1, LINE_2_3)
    assert (reason.restores, reason.fails_whole_header) == (Restores.NO, True)
    assert f"Flink 2.3 has no {OPTION.class_name}, which exists up to 1.20" in reason.why
    assert reasons_of(OPTION, 1, LINE_1_20) == []
    hidden = SerializerSnapshot("com.x.Mine", 1, b"", attributes=((UNKNOWN, "com.x.Mine"),))
    (reason,) = reasons_of(pojo(hidden), 1, LINE_2_3)
    assert reason.restores is Restores.UNKNOWN
    assert "com.x.Mine is no class of Flink" in reason.why


def test_class_added_in_a_later_line_is_not_restored_before() -> None:
    bitmap = "org.apache.flink.api.common.typeutils.base.BitmapSerializer$BitmapSerializerSnapshot"
    assert "which exists from 2.3 on" in missing_class_reason(bitmap, ReleaseLine(2, 2)).why
    assert missing_class_reason(bitmap, ReleaseLine(2, 2)).restores is Restores.NO
    assert reasons_of(SerializerSnapshot(bitmap, 3, b""), 2, LINE_2_3) == []


def test_restore_of_a_class_from_a_jar_of_the_job_is_unknown() -> None:
    avro = SerializerSnapshot("org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot", 3, b"")
    assert [reason.restores for reason in reasons_of(avro, 1, LINE_2_3)] == [Restores.UNKNOWN]
    option = replace(OPTION, class_name="org.apache.flink.table.api.typeutils.ScalaOptionSerializerSnapshot")
    assert [reason.restores for reason in reasons_of(option, 2, LINE_2_3)] == [Restores.UNKNOWN]
    assert reasons_of(option, 2, LINE_1_20)[0].restores is Restores.NO


def test_older_version_of_a_snapshot_is_restored() -> None:
    older = replace(LONG, version=2)
    assert [reasons_of(pojo(older), 1, line) for line in (LINE_1_20, LINE_2_3)] == [[], []]


def test_abandoned_form_of_a_snapshot_is_not_restored() -> None:
    external = "org.apache.flink.table.runtime.typeutils.ExternalSerializer$ExternalSerializerSnapshot"
    for line in (LINE_1_20, LINE_2_3):
        (reason,) = reasons_of(SerializerSnapshot(external, 3, b"", (LONG,), ((ABANDONED, "1.12"),)), 1, line)
        assert (reason.restores, reason.fails_whole_header) == (Restores.NO, True)


@pytest.mark.parametrize(("line", "version"), [("1.18", 4), ("1.20", 4), ("2.0", 5), ("2.1", 6), ("2.3", 6)])
def test_every_line_writes_its_metadata_version(line: str, version: int) -> None:
    (release,) = (known_line for known_line in RELEASE_LINES if str(known_line) == line)
    assert release.metadata_version == version
    assert major_of_writer(version) == release.major
