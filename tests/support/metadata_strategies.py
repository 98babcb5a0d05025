"""Values of `_metadata`: small samples, and Hypothesis strategies for everything that each version can contain."""

from __future__ import annotations

from hypothesis import strategies as st

from rescale.flink.metadata.checkpoint_metadata import (
    FIRST_VERSION_WITH_COORDINATORS,
    FIRST_VERSION_WITH_MERGED_CHANNELS,
    FIRST_VERSION_WITH_NAMES,
    FIRST_VERSION_WITH_PROPERTIES,
    RELEASES_BY_VERSION,
    MasterState,
    Metadata,
    OperatorState,
    Subtask,
    SubtaskState,
)
from rescale.flink.metadata.handles import (
    ChangelogHandle,
    ChangelogStreamHandle,
    DistributionMode,
    EmptySegmentStream,
    FileMerging,
    FileStream,
    HandleTag,
    IncrementalHandle,
    InlineStream,
    InMemoryChangelogHandle,
    KeyedHandle,
    KeyGroupsHandle,
    KeyGroupsStream,
    MergedChannelHandle,
    OperatorHandle,
    OperatorStateOffsets,
    RelativeFileStream,
    RocksdbFile,
    SegmentStream,
    SingleChannelHandle,
    StateChange,
    Stream,
)
from rescale.flink.metadata.properties import savepoint_properties

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
unsigned_int64 = st.integers(0, (1 << 63) - 1)
offsets = st.lists(int64, max_size=4).map(tuple)
texts = st.text(max_size=8)
paths = st.text(min_size=1, max_size=8)
sizes = st.integers(-1, (1 << 63) - 1)
key_groups = st.integers(0, 1 << 14)


def few(items: st.SearchStrategy, **options: object) -> st.SearchStrategy:
    return st.lists(items, max_size=3, **options).map(tuple)


inline_streams = st.builds(InlineStream, texts, st.binary(max_size=16))
segment_streams = st.one_of(
    st.builds(SegmentStream, paths, unsigned_int64, unsigned_int64, st.sampled_from((0, 1)), texts),
    st.just(EmptySegmentStream()),
)
streams: st.SearchStrategy[Stream] = st.recursive(
    st.one_of(
        inline_streams,
        st.builds(FileStream, paths, sizes),
        st.builds(RelativeFileStream, paths, sizes),
        segment_streams,
    ),
    lambda inner: st.builds(KeyGroupsStream, key_groups, offsets, inner),
    max_leaves=2,
)

key_groups_handles = st.one_of(
    st.builds(
        KeyGroupsHandle,
        st.sampled_from((HandleTag.KEY_GROUPS, HandleTag.SAVEPOINT_KEY_GROUPS)),
        key_groups,
        offsets,
        streams,
    ),
    st.builds(KeyGroupsHandle, st.just(HandleTag.KEY_GROUPS_V2), key_groups, offsets, streams, texts),
)


@st.composite
def incremental_handles(draw: st.DrawFn) -> IncrementalHandle:
    v2 = draw(st.booleans())
    files = few(st.builds(RocksdbFile, texts, streams))
    return IncrementalHandle(
        HandleTag.INCREMENTAL_V2 if v2 else HandleTag.INCREMENTAL,
        checkpoint_id=draw(int64),
        backend_id=draw(texts),
        first_key_group=draw(key_groups),
        key_group_count=draw(key_groups),
        checkpointed_size=draw(int64) if v2 else None,
        meta=draw(streams),
        shared=draw(files),
        private=draw(files),
        handle_id=draw(texts) if v2 else None,
    )


in_memory_changelog_handles = st.builds(
    InMemoryChangelogHandle,
    key_groups,
    key_groups,
    unsigned_int64,
    unsigned_int64,
    few(st.builds(StateChange, st.integers(-1, (1 << 31) - 1), st.binary(max_size=8))),
    texts,
)


@st.composite
def changelog_stream_handles(draw: st.DrawFn) -> ChangelogStreamHandle:
    v2 = draw(st.booleans())
    return ChangelogStreamHandle(
        HandleTag.CHANGELOG_STREAM_V2 if v2 else HandleTag.CHANGELOG_STREAM,
        first_key_group=draw(key_groups),
        key_group_count=draw(key_groups),
        change_sets=draw(few(st.tuples(int64, streams))),
        state_size=draw(int64),
        checkpointed_size=draw(int64),
        handle_id=draw(texts),
        storage_id=draw(texts) if v2 else None,
    )


changelog_deltas = st.one_of(in_memory_changelog_handles, changelog_stream_handles())


@st.composite
def changelog_handles(draw: st.DrawFn, inner: st.SearchStrategy[KeyedHandle]) -> ChangelogHandle:
    v2 = draw(st.booleans())
    return ChangelogHandle(
        HandleTag.CHANGELOG_V2 if v2 else HandleTag.CHANGELOG,
        first_key_group=draw(key_groups),
        key_group_count=draw(key_groups),
        checkpointed_size=draw(int64),
        base=draw(few(inner)),
        delta=draw(few(changelog_deltas)),
        materialization_id=draw(int64),
        checkpoint_id=draw(int64) if v2 else None,
        handle_id=draw(texts),
    )


keyed_handles: st.SearchStrategy[KeyedHandle] = st.recursive(
    st.one_of(key_groups_handles, incremental_handles(), changelog_deltas), changelog_handles, max_leaves=3
)

operator_state_offsets = few(
    st.builds(OperatorStateOffsets, texts, st.sampled_from(DistributionMode), offsets),
    unique_by=lambda state: state.name,
)
operator_handles = st.one_of(
    st.builds(OperatorHandle, operator_state_offsets, streams),
    st.builds(
        OperatorHandle,
        operator_state_offsets,
        segment_streams,
        st.builds(FileMerging, paths, paths, st.booleans()),
    ),
)

single_channel_handles = st.builds(SingleChannelHandle, int32, int32, int32, offsets, int64, streams)
merged_channel_handles = st.builds(MergedChannelHandle, int32, int64, streams, st.binary(max_size=16))


def subtask_states(version: int) -> st.SearchStrategy[SubtaskState]:
    channels = st.just(())
    if version >= FIRST_VERSION_WITH_MERGED_CHANNELS:
        channels = few(st.one_of(single_channel_handles, merged_channel_handles))
    elif version >= FIRST_VERSION_WITH_COORDINATORS:
        channels = few(single_channel_handles)
    operator, keyed = st.none() | operator_handles, st.none() | keyed_handles
    return st.builds(SubtaskState, operator, operator, keyed, keyed, channels, channels)


@st.composite
def operator_states(draw: st.DrawFn, version: int) -> OperatorState:
    since_v3 = version >= FIRST_VERSION_WITH_COORDINATORS
    names = texts if version >= FIRST_VERSION_WITH_NAMES else st.just("")
    parallelism = draw(st.integers(1, 6))
    fully_finished = since_v3 and draw(st.booleans())
    subtasks = []
    for index in [] if fully_finished else draw(st.permutations(range(parallelism)))[:3]:
        finished = since_v3 and draw(st.booleans())
        subtasks.append(Subtask(index, finished, None if finished else draw(subtask_states(version))))
    return OperatorState(
        operator_id=draw(st.binary(min_size=16, max_size=16)).hex(),
        name=draw(names),
        uid=draw(names),
        parallelism=parallelism,
        max_parallelism=draw(st.integers(parallelism, 1 << 15)),
        coordinator=draw(st.none() | inline_streams) if since_v3 and not fully_finished else None,
        subtasks=tuple(subtasks),
        fully_finished=fully_finished,
    )


@st.composite
def metadata(draw: st.DrawFn, versions: tuple[int, ...] = tuple(RELEASES_BY_VERSION)) -> Metadata:
    version = draw(st.sampled_from(versions))
    with_properties = version >= FIRST_VERSION_WITH_PROPERTIES
    return Metadata(
        version,
        checkpoint_id=draw(unsigned_int64),
        masters=draw(few(st.builds(MasterState, int32, texts, st.binary(max_size=8)))),
        operators=draw(few(operator_states(version), unique_by=lambda operator: operator.operator_id)),
        properties=savepoint_properties(draw(st.booleans())) if with_properties else b"",
    )


OPERATOR_ID = "b83cc60a2550891ae55f6b48bb521019"


def operator(**fields: object) -> OperatorState:
    defaults = {
        "operator_id": OPERATOR_ID,
        "name": "",
        "uid": "",
        "parallelism": 2,
        "max_parallelism": 128,
        "coordinator": None,
        "subtasks": (),
    }
    return OperatorState(**{**defaults, **fields})


def file(*operators: OperatorState, version: int = 4, checkpoint_id: int = 1) -> Metadata:
    properties = savepoint_properties(is_canonical=True) if version >= FIRST_VERSION_WITH_PROPERTIES else b""
    return Metadata(version, checkpoint_id, (), operators, properties)
