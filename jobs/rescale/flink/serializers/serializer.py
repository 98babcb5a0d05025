"""The row of a serializer: all that is known about it, in one place.

A row is found by the class of the serializer's snapshot. `rows` has the rows of Flink's serializers, and `registry`
adds those that users register. A new type needs a row, and a vector in `tests/support/serializer_vectors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rescale.flink.release_line import RELEASE_LINES, ReleaseLine
from rescale.flink.serializers.layouts import Layout
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import TypeTree
from rescale.text.errors import SnapshotError

TreeOf = Callable[[SerializerSnapshot], TypeTree]
"""Function that returns the tree of a nested serializer. Raises `UnsupportedError` if its values have no known end."""

Values = TypeTree | Callable[[SerializerSnapshot, TreeOf], TypeTree | None]


@dataclass(frozen=True)
class Serializer:
    """A serializer, as its snapshot describes it.

    `snapshot` is the class of the snapshot, and `name` the readable name of the type. In a name, `{class}` stands for
    the attribute `class` of the snapshot, and so on. The names of the nested types follow in angle brackets: those in
    the slice `shown`.

    `versions` are the snapshot's versions, each with the first release that writes it. `layout` reads the body of all
    versions. Every release line that has the class reads all of these versions. `outer_versions` are likewise the outer
    versions of a `CompositeTypeSerializerSnapshot`.

    `values` is the tree of the bytes that the serializer writes, or a function that makes the tree from the snapshot.
    The tree tells where a value ends, and how it hashes if it is a key. None means that the end of a value is unknown.

    `until` is the last release line that has the class, and `way` says what to do if a line does not have it. `jar` is
    the artifact with the class if Flink's distribution does not have it. If `other_bytes_in_flink_2`, Flink 2 accepts
    the snapshot of Flink 1 without an error, but reads values in another format.
    """

    snapshot: str
    name: str
    versions: Mapping[int, str]
    layout: Layout
    values: Values | None = None
    shown: tuple[int | None, int | None] = (None, None)
    outer_versions: Mapping[int, str] = field(default_factory=dict)
    until: ReleaseLine = RELEASE_LINES[-1]
    way: str | None = None
    jar: str | None = None
    other_bytes_in_flink_2: bool = False

    @property
    def since(self) -> ReleaseLine:
        """First release line that has the class."""
        return min(ReleaseLine.parse(release) for release in self.versions.values())

    def tree(self, snapshot: SerializerSnapshot, tree_of: TreeOf) -> TypeTree | None:
        """Return the tree of the values that a snapshot of this class describes; None if their end is unknown."""
        return self.values(snapshot, tree_of) if callable(self.values) else self.values


def from_nested(nested_count: int, make: Callable[..., TypeTree]) -> Values:
    """Return `Serializer.values` for `nested_count` nested serializers: `make` takes their trees as arguments.

    Another number of nested serializers raises `SnapshotError`; Flink does not check their number.
    """
    return lambda snapshot, tree_of: make(*trees_of(nested_count, snapshot, tree_of))


def from_all_nested(make: Callable[[tuple[TypeTree, ...]], TypeTree]) -> Values:
    """Return `Serializer.values` for any number of nested serializers: `make` takes the tuple of their trees."""
    return lambda snapshot, tree_of: make(tuple(map(tree_of, snapshot.nested)))


def trees_of(nested_count: int, snapshot: SerializerSnapshot, tree_of: TreeOf) -> tuple[TypeTree, ...]:
    """Return the trees of the nested serializers. Raises `SnapshotError` unless there are `nested_count` of them."""
    if len(snapshot.nested) != nested_count:
        raise SnapshotError(
            f"a serializer snapshot has a wrong number of nested serializers: {snapshot.class_name}",
            expected=f"{nested_count} serializers",
            found=len(snapshot.nested),
        )
    return tuple(map(tree_of, snapshot.nested))


def same_tree(tree: TypeTree) -> TypeTree:
    """Return the tree itself: the serializer writes what its nested serializer writes."""
    return tree
