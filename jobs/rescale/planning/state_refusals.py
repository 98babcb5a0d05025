"""What is refused whatever is asked for: state of kinds that are not read, or that do not go together."""

from __future__ import annotations

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.advice import ANOTHER, CANONICAL
from rescale.flink.state_meta_info import StateKind
from rescale.snapshot.model import Operator

_NOT_READ = (StateKind.KEY_VALUE_V2,)
"""`RegisteredKeyValueStateBackendMetaInfo` of `runtime.state.v2`, which only `ForStKeyedStateBackend` writes."""


def refuse_unread(operator: Operator) -> None:
    """`UnsupportedError` for state that is not read, `SnapshotError` for raw keyed state that is damaged."""
    if operator.other_keyed:
        raise UnsupportedError(
            "keyed state of this kind is not read",
            operator=operator.label,
            expected="key-group streams or RocksDB directories, with a changelog over them or without",
            found=f"{type(operator.other_keyed[0].handle).__name__} in subtask {operator.other_keyed[0].subtask}",
            advice=CANONICAL,
        )
    if len(operator.kinds) > 1:
        raise UnsupportedError(
            "its subtasks keep keyed state of different kinds, of which Flink would restore one",
            operator=operator.label,
            found=" and ".join(operator.kinds),
            advice=ANOTHER,
        )
    unlike = [stream.subtask for stream in operator.own_raw_keyed if any(stream.present_groups)]
    if operator.raw_timers and unlike:  # an operator with raw keyed state of its own has its timers elsewhere
        raise SnapshotError(
            "the raw keyed state of some of its subtasks is timers, and that of others cannot be read as such",
            operator=operator.label,
            expected="timers in every subtask with raw keyed state",
            found=f"something else in subtask {unlike[0]}: the offsets of its key groups may be damaged",
            advice=ANOTHER,
        )
    foreign = [s for header in operator.keyed_headers if header for s in header.states if s.kind in _NOT_READ]
    if foreign:
        raise UnsupportedError(
            "keyed state that ForSt holds for the asynchronous API is not read",
            operator=operator.label,
            state=foreign[0].name,
            found=f"{foreign[0].kind.name} in its description",
            advice="let Flink itself change its parallelism, at restore; a job on RocksDB or the heap can be rescaled",
        )
    if operator.has_channel_state:
        raise UnsupportedError(
            "an unaligned checkpoint with records in flight: they are already dealt to the old subtasks",
            operator=operator.label,
            found=f"{operator.channel_bytes} bytes of channel state",
            advice="take a savepoint, which never holds any",
        )
