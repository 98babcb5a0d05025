"""Serializers that are not in Flink's distribution, but in jars that a job brings along."""

from __future__ import annotations

from rescale.flink.serializers.layouts import avro
from rescale.flink.serializers.rows.families import nested_snapshot, simple_row
from rescale.flink.serializers.serializer import Serializer

ROWS = (
    Serializer(
        "org.apache.flink.formats.avro.typeutils.AvroSerializerSnapshot",
        "Avro {class}",
        {2: "1.7", 3: "1.12"},
        avro,
        jar="flink-avro",
    ),
    simple_row(
        nested_snapshot("org.apache.flink.streaming.api.utils.ByteArrayWrapperSerializer"),
        "Byte[]",
        since="1.12",
        jar="flink-python",
    ),
)
