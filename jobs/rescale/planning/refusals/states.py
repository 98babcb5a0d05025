"""Refusals that do not depend on the request: kinds of state that cannot be read, or that do not go together."""

from __future__ import annotations

from rescale.flink.advice import ANOTHER, CANONICAL, NOTHING_IN_FLIGHT
from rescale.flink.state_meta_info import StateKind
from rescale.snapshot.model import Operator
from rescale.text.errors import SnapshotError, UnsupportedError

_NOT_READ = (StateKind.KEY_VALUE_V2,)
"""`RegisteredKeyValueStateBackendMetaInfo` of `runtime.state.v2`, which only `ForStKeyedStateBackend` writes."""


def refuse_unread(operator: Operator) -> None:
    """Raise `UnsupportedError` for state that Rescale cannot read, `SnapshotError` for damaged raw keyed state."""
    if operator.other_keyed:
        raise UnsupportedError(
            "keyed state of this kind cannot be read",
            operator=operator.label,
            expected="key-group streams or RocksDB directories, with or without a changelog",
            found=f"{type(operator.other_keyed[0].handle).__name__} in subtask {operator.other_keyed[0].subtask}",
            advice=CANONICAL,
        )
    if len(operator.kinds) > 1:
        raise UnsupportedError(
            "its subtasks keep keyed state of different kinds, and Flink would restore only one of them",
            operator=operator.label,
            found=" and ".join(operator.kinds),
            advice=ANOTHER,
        )
    unlike = [stream.subtask for stream in operator.own_raw_keyed if any(stream.present_groups)]
    if operator.raw_timers and unlike:  # an operator with raw keyed state of its own has its timers elsewhere
        raise SnapshotError(
            "the raw keyed state of some subtasks holds timers, and that of others cannot be read as timers",
            operator=operator.label,
            expected="timers in every subtask with raw keyed state",
            found=f"other bytes in subtask {unlike[0]}: the offsets of its key groups may be damaged",
            advice=ANOTHER,
        )
    foreign = [s for header in operator.keyed_headers if header for s in header.states if s.kind in _NOT_READ]
    if foreign:
        raise UnsupportedError(
            "keyed state that ForSt keeps for the asynchronous state API cannot be read",
            operator=operator.label,
            state=foreign[0].name,
            found=f"{foreign[0].kind.name} in its description",
            advice="let Flink itself change the parallelism when it restores the job, or run the job on RocksDB or the "
            "heap: such a job can be rescaled",
        )
    if operator.has_channel_state:
        raise UnsupportedError(
            "this is an unaligned checkpoint: it holds records in flight, which belong to the old subtasks already",
            operator=operator.label,
            found=f"{operator.channel_bytes} bytes of channel state",
            advice=NOTHING_IN_FLIGHT,
        )
