"""Translates a serializer snapshot to the program that finds the end of a value and computes its `hashCode`.

The end of a value is unknown if its class has no row (`Serializer`). A value of a user's class has a known end, but
needs a formula for its hash (`keys.pojo_formulas`). If the hash differs in each JVM, only the end is known.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.flink.advice import DIVISORS_NEED_NO_HASH
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.registry import row_of
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot
from rescale.flink.serializers.type_tree import TypeTree
from rescale.text.errors import RequestError, UnsupportedError


@dataclass(frozen=True)
class Program:
    """Format of the bytes that a serializer writes, as a tree; `name` is the readable name of the type."""

    name: str
    tree: TypeTree

    @property
    def fixed_length(self) -> int | None:
        """Result of the serializer's `getLength`, None if negative; it may differ from the number of bytes.

        If the length is None for both the key and the namespace, a composite key contains the lengths of both:
        otherwise the composite key would be ambiguous.
        """
        return self.tree.length

    @property
    def hashable(self) -> bool:
        """Whether the `hashCode` of every value is known."""
        return self.tree.hashable


def compile_program(snapshot: SerializerSnapshot) -> Program:
    """Return the program of a serializer.

    Raises `UnsupportedError` if the end of the values is unknown, `SnapshotError` for a wrong number of nested
    serializers, and `RequestError` for a user's serializer that is not installed here.
    """
    return Program(type_name(snapshot), _tree(snapshot))


def compile_if_known(snapshot: SerializerSnapshot) -> Program | None:
    """Return the program of a serializer, as `compile_program`; None if the end of its values is unknown."""
    try:
        return compile_program(snapshot)
    except UnsupportedError:
        return None


def compile_key_program(snapshot: SerializerSnapshot) -> Program:
    """Return the program of a key serializer, as `compile_program`; an `UnsupportedError` mentions the key."""
    try:
        return compile_program(snapshot)
    except UnsupportedError as error:
        error.what = f"cannot find where a key of type {type_name(snapshot)} ends: {error.what}"
        raise


def _tree(snapshot: SerializerSnapshot) -> TypeTree:
    row = None if snapshot.values(UNKNOWN) else row_of(snapshot.class_name)
    if row is None and not snapshot.values(UNKNOWN):
        raise RequestError(
            f"a serializer for {snapshot.class_name} is installed where the snapshot was opened, but not here",
            advice="also install the Python distribution with this serializer on all Spark workers",
        )
    tree = None if row is None else row.tree(snapshot, _tree)
    if tree is None:
        raise UnsupportedError(
            f"the length of a {type_name(snapshot)} is unknown (serializer snapshot {snapshot.class_name})",
            advice=DIVISORS_NEED_NO_HASH,
        )
    return tree
