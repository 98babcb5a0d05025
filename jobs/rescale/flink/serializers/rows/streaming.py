"""Serializers in `flink-runtime` and `flink-streaming-java`: namespaces, TTL state, windows, timers, joins, sinks."""

from __future__ import annotations

from rescale.flink.advice import REPLACE_SINK
from rescale.flink.release_line import LAST_OF_FLINK_1
from rescale.flink.serializers.layouts import fields, outer_fields
from rescale.flink.serializers.rows.families import OLD_COMPOSITE, composite_row, nested_snapshot, simple_row
from rescale.flink.serializers.serializer import Serializer, from_all_nested, from_nested, same_tree
from rescale.flink.serializers.type_tree import Fixed, Repeat, Sequence, Union

_STATE_PACKAGE = "org.apache.flink.runtime.state."
_STREAMING_PACKAGE = "org.apache.flink.streaming."
_WINDOW_PACKAGE = _STREAMING_PACKAGE + "api.windowing.windows."
_SINK_PACKAGE = _STREAMING_PACKAGE + "api.functions.sink."

_TIME = Fixed(8)

VOID_NAMESPACE = simple_row(
    nested_snapshot(_STATE_PACKAGE + "VoidNamespaceSerializer"), "VoidNamespace", Fixed(1, declared=0)
)
GLOBAL_WINDOW = simple_row(
    _WINDOW_PACKAGE + "GlobalWindow$Serializer$GlobalWindowSerializerSnapshot", "GlobalWindow", Fixed(1)
)
TIMER = composite_row(_STREAMING_PACKAGE + "api.operators.TimerSerializerSnapshot", "Timer", {2: "1.8"})
TTL_AWARE = Serializer(
    _STATE_PACKAGE + "ttl.TtlAwareSerializerSnapshot",
    "TTL aware",
    {1: "2.0"},
    fields("isTtlEnabled:flag", "inner:snapshot"),
    from_nested(1, same_tree),
)

TTL = composite_row(
    _STATE_PACKAGE + "ttl.TtlStateFactory$TtlSerializerSnapshot",
    "TTL",
    {2: "1.8"},
    from_all_nested(Sequence),
    shown=(1, None),
)

ROWS = (
    VOID_NAMESPACE,
    simple_row(nested_snapshot(_STATE_PACKAGE + "JavaSerializer"), "Java object"),
    composite_row(
        _STATE_PACKAGE + "ArrayListSerializerSnapshot",
        "List",
        {1: "1.8"},
        from_nested(1, lambda element: Repeat((element,))),
        versions=OLD_COMPOSITE,
    ),
    TTL,
    composite_row(
        _STATE_PACKAGE + "v2.ttl.TtlStateFactory$TtlSerializerSnapshot",
        "TTL",
        {2: "2.0"},
        from_all_nested(Sequence),
        shown=(1, None),
    ),
    TTL_AWARE,
    simple_row(_WINDOW_PACKAGE + "TimeWindow$Serializer$TimeWindowSerializerSnapshot", "TimeWindow", Fixed(16)),
    GLOBAL_WINDOW,
    TIMER,
    composite_row(
        _STREAMING_PACKAGE + "api.operators.co.IntervalJoinOperator$BufferEntrySerializerSnapshot",
        "BufferEntry",
        {2: "1.8"},
        from_nested(1, lambda element: Sequence((Fixed(1), element))),
    ),
    # Element of a window over two streams: a tag (1 or 2), and an element of that stream.
    composite_row(
        _STREAMING_PACKAGE + "api.datastream.CoGroupedStreams$UnionSerializerSnapshot",
        "Union",
        {2: "1.8"},
        from_nested(2, lambda first, second: Union((first, second), tags=(1, 2))),
    ),
    # A record with or without a timestamp (tag 0 or 1), or a watermark (2). State has no other elements. Operators that
    # wait for asynchronous answers store records. SQL operators that keep the order of a key's records also store the
    # watermark before each record (`TableKeyedAsyncWaitOperator`, `StreamingDeltaJoinOperator`).
    composite_row(
        nested_snapshot(_STREAMING_PACKAGE + "runtime.streamrecord.StreamElementSerializer"),
        "StreamElement",
        {2: "1.8"},
        from_nested(1, lambda element: Union((Sequence((_TIME, element)), element, _TIME), tags=(0, 1, 2))),
    ),
    composite_row(
        _SINK_PACKAGE + "TwoPhaseCommitSinkFunction$StateSerializerSnapshot",
        "SinkState",
        {2: "1.8", 3: "1.14.0", 4: "1.14.3"},
        outer=outer_fields("supportsNullTransaction:flag", since=4),
        until=LAST_OF_FLINK_1,
        way=REPLACE_SINK,
    ),
    composite_row(
        _SINK_PACKAGE + "legacy.TwoPhaseCommitSinkFunction$StateSerializerSnapshot",
        "SinkState",
        {4: "2.0"},
        outer=outer_fields("supportsNullTransaction:flag", since=4),
    ),
)
