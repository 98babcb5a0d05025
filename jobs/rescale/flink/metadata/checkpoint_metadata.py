"""Content of a `_metadata` file (`CheckpointMetadata`): the operators, and the handles of their state.

All tuples have the order of the file, so that reading and writing gives the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from rescale.flink.metadata.handles import ChannelHandle, InlineStream, KeyedHandle, OperatorHandle

MAGIC = bytes.fromhex("4960672d")
"""`Checkpoints.HEADER_MAGIC_NUMBER`."""
MASTER_STATE_MAGIC = bytes.fromhex("c96b1696")
"""`MetadataV2V3SerializerBase.MASTER_STATE_MAGIC_NUMBER`."""

FIRST_VERSION_WITH_COORDINATORS = 3
"""Coordinator state, channel state and finished subtasks came with `MetadataV3Serializer`."""
FIRST_VERSION_WITH_PROPERTIES = 4
FIRST_VERSION_WITH_NAMES = 5
FIRST_VERSION_WITH_MERGED_CHANNELS = 6

RELEASES_BY_VERSION = {
    2: "Flink 1.3 to 1.10",
    3: "Flink 1.11 to 1.15",
    4: "Flink 1.16 to 1.20",
    5: "Flink 2.0",
    6: "Flink 2.1 to 2.3",
}
"""Releases that write each version of `_metadata`; a release also reads all older versions from 2 on."""


@dataclass(frozen=True, slots=True)
class MasterState:
    """State of a `MasterTriggerRestoreHook` on the job manager; only the hook can read the payload."""

    version: int
    name: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class SubtaskState:
    """`OperatorSubtaskState`: at most one handle in each of four slots, and the handles of records in flight."""

    managed_operator: OperatorHandle | None = None
    raw_operator: OperatorHandle | None = None
    managed_keyed: KeyedHandle | None = None
    raw_keyed: KeyedHandle | None = None
    input_channels: tuple[ChannelHandle, ...] = ()
    output_channels: tuple[ChannelHandle, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtask:
    """Entry of a subtask; `state` is None if and only if the subtask had `finished`."""

    index: int
    finished: bool
    state: SubtaskState | None


@dataclass(frozen=True, slots=True)
class OperatorState:
    """An operator of the job, with or without state. A subtask without an entry has no state.

    `operator_id` is 32 hex digits. `name` and `uid` are "" if Flink stored none; versions below 5 never have them.
    A `fully_finished` operator (`FullyFinishedOperatorState`) has no subtasks and no coordinator state.
    """

    operator_id: str
    name: str
    uid: str
    parallelism: int
    max_parallelism: int
    coordinator: InlineStream | None
    subtasks: tuple[Subtask, ...]
    fully_finished: bool = False


@dataclass(frozen=True, slots=True)
class Metadata:
    """A whole `_metadata` file; `properties` is a Java object stream from version 4 on, and b"" in older versions."""

    version: int
    checkpoint_id: int
    masters: tuple[MasterState, ...]
    operators: tuple[OperatorState, ...]
    properties: bytes
