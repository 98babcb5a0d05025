"""Serializers of Scala's types: `flink-scala` of Flink 1; `flink-table-api-scala` has the same classes in Flink 2."""

from __future__ import annotations

from dataclasses import replace

from rescale.flink.release_line import LAST_OF_FLINK_1
from rescale.flink.serializers.layouts import outer_fields, scala_constants
from rescale.flink.serializers.rows.families import OLD_COMPOSITE, composite_row, nested_snapshot, simple_row
from rescale.flink.serializers.serializer import Serializer, from_all_nested
from rescale.flink.serializers.type_tree import Fixed, FixedHash, Nullable, Product, TypeTree

_SCALA, _SCALA_OF_TABLES = "org.apache.flink.api.scala.typeutils.", "org.apache.flink.table.api.typeutils."


def _case_class_tree(fields: tuple[TypeTree, ...]) -> TypeTree:
    return Product(tuple(map(_with_scala_hash, fields)))


def _with_scala_hash(tree: TypeTree) -> TypeTree:
    """Return the tree that hashes its value as Scala's `##` does: equal numbers of any class have the same hash."""
    match tree:
        case Fixed(size, FixedHash.LONG):
            return Fixed(size, FixedHash.SCALA_LONG)
        case Fixed(size, FixedHash.FLOAT | FixedHash.DOUBLE):
            return Fixed(size)
        case Nullable(nullable, padding):
            return Nullable(_with_scala_hash(nullable), padding)
    return tree


_TYPE_ROWS = (
    simple_row(_SCALA + "NothingSerializerSnapshot", "Nothing"),
    simple_row(nested_snapshot(_SCALA + "UnitSerializer"), "Unit"),
    composite_row(_SCALA + "ScalaOptionSerializerSnapshot", "Option", {2: "1.8"}),
    composite_row(_SCALA + "ScalaEitherSerializerSnapshot", "Either", {1: "1.8"}, versions=OLD_COMPOSITE),
    composite_row(_SCALA + "ScalaTrySerializerSnapshot", "Try", {2: "1.8"}),
    Serializer(_SCALA + "ScalaEnumSerializerSnapshot", "Enum {class}", {3: "1.8"}, scala_constants),
    *(
        composite_row(
            _SCALA + snapshot, "{class}", {2: "1.8"}, from_all_nested(_case_class_tree), outer_fields("class:utf")
        )
        for snapshot in ("ScalaCaseClassSerializerSnapshot", "Tuple2CaseClassSerializerSnapshot")
    ),
    composite_row(
        _SCALA + "TraversableSerializerSnapshot", "Traversable", {2: "1.8"}, outer=outer_fields("cbfCode:utf")
    ),
)

_SCALA_ADVICE = (
    "in the job on Flink 1.x, copy the state into an operator with another uid and with types of Java (POJOs, tuples, "
    "Types.LIST, …), and then take the savepoint"
)

ROWS = tuple(replace(row, until=LAST_OF_FLINK_1, way=_SCALA_ADVICE) for row in _TYPE_ROWS) + tuple(
    replace(
        row,
        snapshot=_SCALA_OF_TABLES + row.snapshot.removeprefix(_SCALA),
        versions={max(row.versions): "2.0"},
        outer_versions=dict.fromkeys(row.outer_versions, "2.0"),
        jar="flink-table-api-scala",
    )
    for row in _TYPE_ROWS
)
