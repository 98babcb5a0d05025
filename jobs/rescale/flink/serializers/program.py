"""From a serializer snapshot to the program that finds where a value ends and what its `hashCode` is.

A class without a row can hold anything: no value of it can be measured. A class whose hash is its user's own, or
differs from one JVM to the next, can be measured and not hashed, unless `keys.formulas` says how.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.flink.advice import DIVISORS
from rescale.flink.serializers.reading import type_name
from rescale.flink.serializers.registry import row_of
from rescale.flink.serializers.snapshot import UNKNOWN, SerializerSnapshot
from rescale.flink.serializers.type_tree import TypeTree
from rescale.text.errors import RequestError, UnsupportedError


@dataclass(frozen=True)
class Program:
    """Bytes that a serializer writes, as a tree. `name` is the type's, as people call it."""

    name: str
    tree: TypeTree

    @property
    def fixed_length(self) -> int | None:
        """Result of the serializer's `getLength`, None if that is negative: it need not be the number of bytes.

        A composite key is ambiguous, and holds lengths for that, when this is None for both key and namespace.
        """
        return self.tree.length

    @property
    def hashable(self) -> bool:
        """Whether the `hashCode` of every value is known."""
        return self.tree.hashable


def compile_program(snapshot: SerializerSnapshot) -> Program:
    """Return the program of a serializer.

    Raises `UnsupportedError` if there is a class in the snapshot whose values cannot be measured, and `SnapshotError`
    where a class holds another number of others than it can.
    """
    return Program(type_name(snapshot), _tree(snapshot))


def compile_key_program(snapshot: SerializerSnapshot) -> Program:
    """Compile the serializer of keys; errors as `compile_program`, which say that it is about a key."""
    try:
        return compile_program(snapshot)
    except UnsupportedError as error:
        error.what = f"cannot find where a key of type {type_name(snapshot)} ends: {error.what}"
        raise


def _tree(snapshot: SerializerSnapshot) -> TypeTree:
    row = None if snapshot.values(UNKNOWN) else row_of(snapshot.class_name)
    if row is None and not snapshot.values(UNKNOWN):
        raise RequestError(
            f"a serializer for {snapshot.class_name} is installed where the snapshot was opened, and not here",
            advice="install the distribution that registers it on all of Spark's workers, too",
        )
    tree = None if row is None else row.tree(snapshot, _tree)
    if tree is None:
        raise UnsupportedError(
            f"the length of what {snapshot.class_name} writes for the type {type_name(snapshot)} is not known",
            advice=DIVISORS,
        )
    return tree
