"""What Flink's CEP library writes, which keeps partial matches for patterns and for SQL's MATCH_RECOGNIZE.

Events lie in a buffer that matches share: each once, counted (`Lockable`), and nodes that lead from an event to the one
before it, by edges with the version of the match that they belong to (`SharedBuffer`, `DeweyNumber`).
"""

from __future__ import annotations

from rescale.flink.serializers.type_tree import Fixed, Repeat, Sequence, Text, TypeTree, Union

_NUMBER, _TIME, _NOTHING = Fixed(4), Fixed(8), Fixed(0)

EVENT_ID = Sequence((_NUMBER, _TIME))
"""`EventIdSerializer`."""

DEWEY_NUMBER = Repeat((_NUMBER,), folds=False)
"""`DeweyNumberSerializer`."""


def node_id(event: TypeTree) -> TypeTree:
    """`NodeIdSerializer`: whether it is there, the id of the event and the name of its state in the pattern."""
    return Union(Sequence((event, Text())), _NOTHING)


def lockable(element: TypeTree) -> TypeTree:
    """`LockableTypeSerializer`: how often it is referred to, then the element."""
    return Sequence((_NUMBER, element))


def buffer_node(edge: TypeTree) -> TypeTree:
    """`SharedBufferNodeSerializer`: its edges, each lockable."""
    return Repeat((_NUMBER, edge), folds=False)


def matches(version: TypeTree, node: TypeTree, event: TypeTree, *, has_previous_time: bool) -> TypeTree:
    """`NFAStateSerializer`: the partial matches, then the completed ones."""
    times = (_TIME, _TIME) if has_previous_time else (_TIME,)
    match = (Text(), node, version, *times, Union(event, _NOTHING))
    return Sequence((Repeat(match, folds=False), Repeat(match, folds=False)))
