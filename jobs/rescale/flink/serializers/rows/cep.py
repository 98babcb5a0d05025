"""Serializers in `flink-cep`, which keeps partial matches for patterns and for SQL's MATCH_RECOGNIZE.

Matches share a buffer (`SharedBuffer`), which has each event once, with a count of references (`Lockable`). The nodes
of the buffer lead from an event to the previous event. Each edge has the version (`DeweyNumber`) of its match.
"""

from __future__ import annotations

from rescale.flink.release_line import LAST_OF_FLINK_1
from rescale.flink.serializers.layouts import outer_fields
from rescale.flink.serializers.rows.families import OLD_COMPOSITE, composite_row, nested_snapshot, simple_row
from rescale.flink.serializers.serializer import TreeOf, from_all_nested, from_nested, same_tree, trees_of
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.type_tree import Fixed, Repeat, Sequence, Text, TypeTree, Union

_NFA_PACKAGE = "org.apache.flink.cep.nfa."
_BUFFER_PACKAGE = _NFA_PACKAGE + "sharedbuffer."

_NUMBER, _TIME, _NOTHING = Fixed(4), Fixed(8), Fixed(0)


def _nfa_state_tree(snapshot: SerializerSnapshot, tree_of: TreeOf) -> TypeTree:
    """Return the tree of `NFAStateSerializer`: the partial matches, then the completed ones."""
    version, node, event = trees_of(3, snapshot, tree_of)
    has_previous_time = snapshot.values("supportsPreviousTimestamp") == (str(True),)
    times = (_TIME, _TIME) if has_previous_time else (_TIME,)
    match = (Text(), node, version, *times, Union((event, _NOTHING)))
    return Sequence((Repeat(match, folds=False), Repeat(match, folds=False)))


ROWS = (
    simple_row(nested_snapshot(_BUFFER_PACKAGE + "EventId$EventIdSerializer"), "EventId", Sequence((_NUMBER, _TIME))),
    simple_row(
        nested_snapshot(_NFA_PACKAGE + "DeweyNumber$DeweyNumberSerializer"),
        "DeweyNumber",
        Repeat((_NUMBER,), folds=False),
    ),
    # A flag (1: there is a node), then the id of the node's event and the name of its state in the pattern.
    composite_row(
        nested_snapshot(_BUFFER_PACKAGE + "NodeId$NodeIdSerializer"),
        "NodeId",
        {1: "1.8"},
        from_nested(1, lambda event: Union((Sequence((event, Text())), _NOTHING))),
    ),
    # The number of references to the element, then the element.
    composite_row(
        _BUFFER_PACKAGE + "LockableTypeSerializerSnapshot",
        "Lockable",
        {1: "1.8"},
        from_nested(1, lambda element: Sequence((_NUMBER, element))),
        versions=OLD_COMPOSITE,
    ),
    # The edges of a node, each with its number of references.
    composite_row(
        _BUFFER_PACKAGE + "SharedBufferNodeSerializerSnapshotV2",
        "SharedBufferNode",
        {1: "1.13"},
        from_nested(1, lambda edge: Repeat((_NUMBER, edge), folds=False)),
    ),
    # A list of edges, as Flink wrote it before 1.13. In Flink 1, a restored operator still has this state, but empty.
    composite_row(
        nested_snapshot(_BUFFER_PACKAGE + "SharedBufferNode$SharedBufferNodeSerializer"),
        "SharedBufferNode",
        {1: "1.8"},
        from_nested(1, same_tree),
        until=LAST_OF_FLINK_1,
    ),
    composite_row(
        nested_snapshot(_BUFFER_PACKAGE + "SharedBufferEdge$SharedBufferEdgeSerializer"),
        "SharedBufferEdge",
        {1: "1.8"},
        from_all_nested(Sequence),
    ),
    composite_row(
        _NFA_PACKAGE + "NFAStateSerializerSnapshot",
        "NFAState",
        {1: "1.8", 2: "1.16"},
        _nfa_state_tree,
        outer_fields("supportsPreviousTimestamp:flag", since=2),
    ),
)
