"""Raises errors for state that cannot be read, moved or written, before anything is written."""

from __future__ import annotations

from rescale.flink.advice import (
    ASK_FOR_CANONICAL_RESULT,
    MATERIALISE_CHANGELOG,
    RESCALE_CANONICAL_SAVEPOINT,
    SNAPSHOT_WITHOUT_COMPRESSION,
    TAKE_ALIGNED_SNAPSHOT,
    TAKE_ANOTHER_SNAPSHOT,
)
from rescale.flink.keyed.changelog.change_layouts import change_layout
from rescale.flink.keyed.header import require_header
from rescale.flink.keyed.heap.heap_entries import entry_layouts
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.state_meta_info import StateKind
from rescale.planning.request.result_files import Format
from rescale.planning.request.result_kind import becomes_databases, stays_on_heap
from rescale.rocksdb.manifest.manifest import DEFAULT_COLUMN_FAMILY
from rescale.snapshot.keyed_state import Changelog, KeyedStream
from rescale.snapshot.model import Operator
from rescale.text.advice import Advice, mention
from rescale.text.errors import SnapshotError, UnsupportedError, located

_UNREADABLE_KINDS = (StateKind.KEY_VALUE_V2,)
"""Kinds of state that cannot be read: those of `runtime.state.v2.RegisteredKeyValueStateBackendMetaInfo`.

Only `ForStKeyedStateBackend` writes them.
"""


def refuse_unreadable_state(operator: Operator) -> None:
    """Raise `UnsupportedError` for state that Rescale cannot read, and `SnapshotError` for damaged state."""
    if operator.other_keyed:
        raise UnsupportedError(
            "keyed state of this kind cannot be read",
            operator=operator.label,
            expected="key-group streams or RocksDB directories, with or without a changelog",
            found=f"{type(operator.other_keyed[0].handle).__name__} in subtask {operator.other_keyed[0].subtask}",
            advice=RESCALE_CANONICAL_SAVEPOINT,
        )
    if len(operator.holder_kinds) > 1:
        raise UnsupportedError(
            "the operator's subtasks keep keyed state of different kinds, and Flink would restore only one kind",
            operator=operator.label,
            found=" and ".join(operator.holder_kinds),
            advice=TAKE_ANOTHER_SNAPSHOT,
        )
    subtasks_without_timers = [
        stream.subtask
        for stream in operator.raw_keyed_without_timers
        if any(stream.present_groups) and not stream.has_hidden_timers
    ]
    # Flink keeps timers outside of raw keyed state if the operator itself writes raw keyed state.
    if operator.raw_timers and subtasks_without_timers:
        raise SnapshotError(
            "the raw keyed state of some subtasks holds timers, but other subtasks have raw keyed state without timers",
            operator=operator.label,
            expected="timers in every subtask with raw keyed state",
            found=f"other bytes in subtask {subtasks_without_timers[0]}: the offsets of its key groups may be damaged",
            advice=TAKE_ANOTHER_SNAPSHOT,
        )
    unreadable_states = [state for state in operator.keyed_states if state.kind in _UNREADABLE_KINDS]
    if unreadable_states:
        raise UnsupportedError(
            "keyed state that ForSt keeps for the asynchronous state API cannot be read",
            operator=operator.label,
            state=unreadable_states[0].name,
            found=f"{unreadable_states[0].kind.name} in its description",
            advice="let Flink itself change the parallelism when it restores the job, or run the job on RocksDB or the "
            "heap, whose state Rescale can read",
        )
    for stream in operator.element_streams:
        if stream.shares_offsets:
            raise SnapshotError(
                "compressed elements of operator state share an offset, so it is unknown where each of them begins",
                operator=operator.label,
                found=f"such elements in subtask {stream.subtask}",
                advice=SNAPSHOT_WITHOUT_COMPRESSION,
            )
    if operator.has_channel_state:
        raise UnsupportedError(
            "this is an unaligned checkpoint: it holds records in flight, which belong to the old subtasks",
            operator=operator.label,
            found=f"{operator.channel_bytes} bytes of channel state",
            advice=TAKE_ALIGNED_SNAPSHOT,
        )


def refuse_changelog(operator: Operator, result_format: Format) -> None:
    """Raise `UnsupportedError` for a changelog that cannot be parsed, or that the result would have to keep.

    Also raise it if the operator has timers in raw keyed state beside the changelog.
    """
    if not operator.changelogs:
        return
    with located(operator=operator.label):
        for changelog in operator.changelogs:
            _refuse_unparsable_changelog(changelog)
        if operator.raw_timers:
            raise UnsupportedError(
                "timers are both in a changelog and in raw keyed state, and it is not known which are current",
                advice=MATERIALISE_CHANGELOG,
            )
    if result_format is Format.KEEP and not becomes_databases(operator, result_format):
        raise UnsupportedError(
            "the keyed state is kept in a changelog, which Rescale cannot write, and its materialised part is not in "
            "RocksDB",
            operator=operator.label,
            expected="format canonical or rocksdb",
            found="format keep",
            advice=Advice(
                ASK_FOR_CANONICAL_RESULT,
                ", which every backend restores, or RocksDB's (",
                mention("format", "rocksdb"),
                ")",
            ),
        )


def _refuse_unparsable_changelog(changelog: Changelog) -> None:
    if changelog.parsed is None and not changelog.base:
        raise UnsupportedError(
            "no state is materialised yet, and the changelog alone does not describe the serializer of its keys",
            expected="a materialised part in at least one subtask, or timers",
            found=f"only changes in subtask {changelog.subtask}",
            advice=MATERIALISE_CHANGELOG,
        )
    header = require_header(changelog.parsed, advice=MATERIALISE_CHANGELOG)
    for state in header.states:
        if state.name in changelog.logged_states:
            change_layout(header, state)
    for part in changelog.base:
        if isinstance(part, KeyedStream) and part.framing is Framing.HEAP:
            entry_layouts(require_header(part.parsed, advice=MATERIALISE_CHANGELOG))


def refuse_state_names(operator: Operator, result_format: Format) -> None:
    """Raise `UnsupportedError` for a state's name that RocksDB's library cuts off, or that Flink's backend refuses.

    Only states that are in RocksDB, in the source or in the result, are checked. Flink refuses the name of RocksDB's
    default column family (`RocksDBOperationUtils`). A name in a directory of the source is valid in Flink, but
    RocksDB's library might not accept it.
    """
    has_databases = becomes_databases(operator, Format.KEEP)
    if not (has_databases or becomes_databases(operator, result_format)):
        return
    omitted_states = frozenset[str]() if has_databases else operator.dropped_states  # RocksDB opens dropped states, too
    advice = RESCALE_CANONICAL_SAVEPOINT if has_databases else ASK_FOR_CANONICAL_RESULT
    for name in dict.fromkeys(state.name for state in operator.keyed_states):
        if name in omitted_states:
            continue
        if "\0" in name:
            raise UnsupportedError(
                "the name of a state has a NUL character, where RocksDB's library would cut it off",
                operator=operator.label,
                state=name,
                advice=advice,
            )
        if name == DEFAULT_COLUMN_FAMILY:
            raise UnsupportedError(
                "a state has the name that RocksDB reserves for itself, so Flink's RocksDB backend refuses it",
                operator=operator.label,
                state=name,
                advice=Advice(ASK_FOR_CANONICAL_RESULT, ", for a job on the heap"),
            )


def refuse_undelimited_entries(operator: Operator) -> None:
    """Raise `UnsupportedError` if it is unknown where the operator's heap entries end."""
    with located(operator=operator.label):
        for header in {stream.header: stream.parsed for stream in operator.heap_streams}.values():
            entry_layouts(require_header(header))


def refuse_old_rows(operator: Operator, result_format: Format) -> None:
    """Raise `UnsupportedError` if old rows are to be left out of a result in the hashmap backend's native format."""
    if operator.cutoffs and stays_on_heap(operator, result_format):
        raise UnsupportedError(
            "old rows cannot be left out of a result in the native format of the hashmap backend",
            operator=operator.label,
            state=operator.cutoffs[0][0],
            expected="format canonical or rocksdb",
            found="format keep, for state of the hashmap backend",
            advice=Advice(ASK_FOR_CANONICAL_RESULT, ", which every backend restores"),
        )
