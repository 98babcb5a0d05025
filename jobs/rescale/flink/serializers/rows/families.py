"""Functions that make rows for the two families of serializers in Flink; the snapshots of a family extend one class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rescale.flink.serializers.layouts import OuterBody, composite, simple
from rescale.flink.serializers.serializer import Serializer, Values

OLD_SIMPLE, OLD_COMPOSITE = {2: "1.7", 3: "1.8"}, {1: "1.7", 3: "1.8"}
"""Versions of snapshots that exist since Flink 1.7, and the first release of each version.

Other serializers of Flink 1.7 have a `TypeSerializerConfigSnapshot`, which Rescale does not read.
"""


def simple_row(
    snapshot: str, name: str, values: Values | None = None, *, since: str = "1.8", **columns: Any
) -> Serializer:
    """Return the row of a class that extends `SimpleTypeSerializerSnapshot`; `columns` are other fields of the row."""
    return Serializer(snapshot, name, layout=simple, values=values, **{"versions": {3: since}, **columns})


def composite_row(
    snapshot: str,
    name: str,
    outer_versions: Mapping[int, str],
    values: Values | None = None,
    outer: OuterBody | None = None,
    **columns: Any,
) -> Serializer:
    """Return the row of a class that extends `CompositeTypeSerializerSnapshot`; `outer` reads its outer body."""
    versions = {3: outer_versions[min(outer_versions)]}
    return Serializer(
        snapshot,
        name,
        layout=composite(outer),
        values=values,
        outer_versions=outer_versions,
        **{"versions": versions, **columns},
    )


def nested_snapshot(serializer: str) -> str:
    """Return the name of the snapshot class that is nested in the class of a serializer, as in most serializers."""
    simple_name = serializer.rpartition(".")[2].rpartition("$")[2]
    return f"{serializer}${simple_name}Snapshot"
