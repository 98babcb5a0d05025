"""Serializers in `flink-table-runtime`: the data structures of the table API and of SQL."""

from __future__ import annotations

from rescale.flink.serializers.layouts import external, fields, outer_fields, row_data, sorted_map
from rescale.flink.serializers.rows.core import MAP
from rescale.flink.serializers.rows.families import composite_row, nested_snapshot, simple_row
from rescale.flink.serializers.serializer import Serializer, TreeOf, from_all_nested, from_nested, same_tree
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import Blob, BlobHash, Fixed, Opaque, Sequence, TypeTree

_RUNTIME_PACKAGE = "org.apache.flink.table.runtime."
_TYPEUTILS = _RUNTIME_PACKAGE + "typeutils."
_WINDOW_PACKAGE = _RUNTIME_PACKAGE + "operators.window."
_MULTISET_PACKAGE = _RUNTIME_PACKAGE + "sequencedmultisetstate.linked."
_VIEW_PACKAGE = "org.apache.flink.table.dataview."

_BYTES, _BINARY_ROW = Blob(BlobHash.UNKNOWN), Blob(BlobHash.BINARY_ROW)
_MOST_COMPACT_DECIMAL, _MOST_COMPACT_TIMESTAMP = 18, 3
"""Highest precisions of compact values (`DecimalData.MAX_COMPACT_PRECISION`, `TimestampData.isCompact`)."""


def _decimal_tree(snapshot: SerializerSnapshot, _: TreeOf) -> TypeTree:
    (precision,) = snapshot.values("precision")
    return Fixed(8, declared=-1) if int(precision) <= _MOST_COMPACT_DECIMAL else _BYTES


def _timestamp_tree(snapshot: SerializerSnapshot, _: TreeOf) -> TypeTree:
    (precision,) = snapshot.values("precision")
    return Fixed(8 if int(precision) <= _MOST_COMPACT_TIMESTAMP else 12)


ROWS = (
    simple_row(
        _WINDOW_PACKAGE + "TimeWindow$Serializer$TimeWindowSerializerSnapshot", "TimeWindow", Fixed(16), since="1.9"
    ),
    simple_row(
        _WINDOW_PACKAGE + "CountWindow$Serializer$CountWindowSerializerSnapshot", "CountWindow", Fixed(8), since="1.9"
    ),
    simple_row(
        _WINDOW_PACKAGE + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot",
        "GlobalWindow",
        Fixed(1),
        since="2.0",
    ),
    simple_row(nested_snapshot(_TYPEUTILS + "StringDataSerializer"), "StringData", _BYTES, since="1.11"),
    simple_row(
        nested_snapshot(_RUNTIME_PACKAGE + "operators.sink.SortedLongSerializer"),
        "SortedLong",
        Fixed(8),
        since="2.3",
    ),
    Serializer(nested_snapshot(_TYPEUTILS + "RowDataSerializer"), "RowData", {3: "1.11"}, row_data, _BINARY_ROW),
    Serializer(
        nested_snapshot(_TYPEUTILS + "BinaryRowDataSerializer"),
        "BinaryRowData",
        {3: "1.11"},
        fields("numFields:i32"),
        _BINARY_ROW,
    ),
    Serializer(
        _TYPEUTILS + "DecimalDataSerializer$DecimalSerializerSnapshot",
        "DecimalData({precision}, {scale})",
        {3: "1.11"},
        fields("precision:i32", "scale:i32"),
        _decimal_tree,
    ),
    Serializer(
        nested_snapshot(_TYPEUTILS + "TimestampDataSerializer"),
        "TimestampData({precision})",
        {1: "1.11"},
        fields("precision:i32"),
        _timestamp_tree,
    ),
    Serializer(
        nested_snapshot(_TYPEUTILS + "ArrayDataSerializer"),
        "ArrayData",
        {3: "1.11"},
        fields("type:java", "serializer:java"),
        _BYTES,
    ),
    Serializer(
        nested_snapshot(_TYPEUTILS + "MapDataSerializer"),
        "MapData",
        {3: "1.11"},
        fields("key type:java", "type:java", "key serializer:java", "serializer:java"),
        _BYTES,
    ),
    composite_row(nested_snapshot(_TYPEUTILS + "RawValueDataSerializer"), "RawValueData", {0: "1.11"}, _BYTES),
    # Flink hashes the external object of a key, but its bytes are those of the internal object.
    composite_row(
        nested_snapshot(_TYPEUTILS + "ExternalSerializer"),
        "External",
        {1: "1.12"},
        from_nested(1, lambda internal: Opaque((internal,))),
        external,
    ),
    composite_row(nested_snapshot(_TYPEUTILS + "WindowKeySerializer"), "WindowKey", {1: "1.13"}),
    composite_row(
        nested_snapshot(_TYPEUTILS + "LinkedListSerializer"),
        "LinkedList",
        {1: "1.13.1", 2: "1.13.3", 3: "1.14.3"},
        outer=outer_fields("hasNullMask:flag", since=3),
    ),
    Serializer(_TYPEUTILS + "SortedMapSerializerSnapshot", "SortedMap", {3: "1.9"}, sorted_map, MAP.values),
    simple_row(nested_snapshot(_VIEW_PACKAGE + "NullSerializer"), "Null", since="1.9"),
    composite_row(_VIEW_PACKAGE + "NullAwareMapSerializerSnapshot", "Map", {1: "1.9"}),
    composite_row(_VIEW_PACKAGE + "MapViewSerializerSnapshot", "MapView", {1: "1.9"}, from_nested(1, same_tree)),
    composite_row(_VIEW_PACKAGE + "ListViewSerializerSnapshot", "ListView", {1: "1.9"}, from_nested(1, same_tree)),
    composite_row(
        nested_snapshot(_MULTISET_PACKAGE + "MetaSqnInfoSerializer"),
        "MetaSqnInfo",
        {0: "2.2"},
        from_all_nested(Sequence),
    ),
    composite_row(
        nested_snapshot(_MULTISET_PACKAGE + "RowSqnInfoSerializer"), "RowSqnInfo", {0: "2.2"}, from_all_nested(Sequence)
    ),
    composite_row(nested_snapshot(_MULTISET_PACKAGE + "NodeSerializer"), "Node", {0: "2.2"}, from_all_nested(Sequence)),
    Serializer(
        _MULTISET_PACKAGE + "RowDataKeySerializerSnapshot",
        "RowDataKey",
        {0: "2.2"},
        fields("equaliser:blob", "hashFunction:blob", "inner:snapshot"),
        from_nested(1, same_tree),
    ),
)
