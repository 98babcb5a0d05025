"""The output of `inspect`: a snapshot at a glance, as a document and as a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rescale.flink.keyed.heap.heap_entries import can_delimit_entries
from rescale.flink.metadata.checkpoint_metadata import RELEASES_BY_VERSION
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink.release_line import ReleaseLine
from rescale.flink.serializers.reading import type_name
from rescale.flink.state_meta_info import StateKind
from rescale.insight.insight import snapshot_insight
from rescale.planning.obstacles import obstacles
from rescale.report.documents import DealtState, InspectedOperator, InspectedState, Inspection
from rescale.report.page import Block, Bullets, Page, WarningBlock, paragraph, table
from rescale.report.pages.elements import dealt_elements
from rescale.report.pages.insights import insight_blocks
from rescale.report.pages.kafka import kafka_document, kafka_tables
from rescale.report.pages.other_release import prospects_section
from rescale.report.shortening import MOST_OPERATORS, cut_table, lowest, note_on_other_operators, state_bytes
from rescale.snapshot.findings import findings
from rescale.snapshot.kafka.audit import spread_findings
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.keyed_state import Changelog, Database
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.moves import is_checkpoint_directory
from rescale.snapshot.prospects import prospects
from rescale.snapshot.reading.given_names import unused_names_note
from rescale.text.units import counted, human_bytes, instant_text

_NOTE_WITHOUT_NAMES = (
    "Flink 1.x stores only the ids of operators: give a list of their uids to see them here. A request may name "
    "operators by uid even without this list."
)


def inspection(
    snapshot: Snapshot, source_offsets: Sequence[KafkaOffsets] = (), release_line: ReleaseLine | None = None
) -> Inspection:
    """Return the document of a snapshot and of the Kafka offsets in it.

    With `release_line`, a Flink release line, the document also says what that Flink would restore.
    """
    metadata = snapshot.metadata
    return Inspection(
        snapshot=snapshot.directory,
        kind=_kind(snapshot),
        written_by=_writing_releases(snapshot),
        metadata_version=metadata.version,
        checkpoint_id=metadata.checkpoint_id,
        taken=snapshot.metadata_time.isoformat(sep=" ", timespec="seconds") if snapshot.metadata_time else None,
        files=len(snapshot.files) - 1,
        bytes=snapshot.bytes,
        missing=snapshot.missing_files,
        operators=tuple(map(_operator, snapshot.operators)),
        unread=tuple(
            operator.read_error.document() for operator in snapshot.operators if operator.read_error is not None
        ),
        kafka=tuple(map(kafka_document, source_offsets)),
        warnings=(
            *obstacles(snapshot),
            *findings(snapshot, source_offsets),
            *(
                str(finding)
                for offsets in source_offsets
                for finding in spread_findings(offsets, offsets.operator.parallelism)
            ),
            *unused_names_note(snapshot.unused_names),
        ),
        insight=snapshot_insight(snapshot),
        for_flink=None if release_line is None else prospects(snapshot, release_line, source_offsets),
    )


def inspection_page(document: Inspection) -> Page:
    operators = document.operators
    shown_operators = lowest(operators, MOST_OPERATORS, lambda operator: -state_bytes(operator))
    blocks: list[Block] = [
        Bullets(
            document.snapshot,
            (
                f"{document.kind}, written by {document.written_by}, checkpoint {document.checkpoint_id}, "
                f"its _metadata written {instant_text(document.taken)}",
                f"{counted(len(operators), 'operator')}, {counted(document.files, 'file')}, "
                f"{human_bytes(document.bytes)} of state",
            ),
        ),
        table(
            ("operator", "parallelism", "max", "key", "keyed", "operator state", "remark"),
            map(inspected_row, shown_operators),
        ),
        *note_on_other_operators(operators, shown_operators),
    ]
    states = [
        (operator.label, state.name, state.type, state.content)
        for operator in shown_operators
        for state in operator.states
    ]
    if states and all(operator.label == operator.operator_id for operator in operators):
        blocks.append(paragraph(_NOTE_WITHOUT_NAMES))
    blocks += cut_table(
        ("operator", "state", "type", "content"),
        states,
        "more state of these operators",
        "more states of these operators",
    )
    blocks += kafka_tables(document.kafka)
    if document.for_flink is not None:
        blocks.append(prospects_section(document.for_flink, document.snapshot))
    blocks += insight_blocks(document.insight)
    return Page((*blocks, *map(WarningBlock, document.warnings)))


def inspected_row(operator: InspectedOperator) -> Sequence[object]:
    """Return the table row of an operator: label, shape, key type, keyed and operator state, and remark."""
    return (
        operator.label,
        operator.parallelism,
        operator.max_parallelism,
        operator.key or "",
        human_bytes(operator.keyed_bytes) if operator.keyed_bytes else "",
        human_bytes(operator.operator_bytes) if operator.operator_bytes else "",
        operator.remark,
    )


def _kind(snapshot: Snapshot) -> str:
    other_kinds = {type(other.handle).__name__ for o in snapshot.operators for other in o.other_keyed}
    database_kinds = {"ForSt" if _is_forst(snapshot) else "RocksDB" for o in snapshot.operators if o.databases}
    changelog_kinds = {_kind_of_changelog(changelog) for o in snapshot.operators for changelog in o.changelogs}
    framing_kinds = {stream.framing.value for o in snapshot.operators for stream in o.keyed}
    kinds_of_keyed = sorted([*framing_kinds, *database_kinds, *changelog_kinds, *other_kinds])
    if any(operator.read_error is not None for operator in snapshot.operators):
        kinds_of_keyed.append("unread")
    state_text = f"{', '.join(kinds_of_keyed)} keyed state" if kinds_of_keyed else "no keyed state"
    if snapshot.type is not SnapshotType.UNKNOWN:
        return f"{_KINDS[snapshot.type]} ({state_text})"
    # Metadata before version 4, and metadata of the State Processor API, does not say what the snapshot is. Directories
    # named `chk-N` hold only checkpoints.
    return f"{'checkpoint' if is_checkpoint_directory(snapshot.directory) else 'savepoint'} ({state_text})"


def _is_forst(snapshot: Snapshot) -> bool:
    """Return whether the snapshot has states that only ForSt writes.

    If a job on ForSt uses the older state API, its state looks like RocksDB's, and the result is False.
    """
    return any(
        state.kind is StateKind.KEY_VALUE_V2 for operator in snapshot.operators for state in operator.keyed_states
    )


_KINDS = {
    SnapshotType.CANONICAL_SAVEPOINT: "canonical savepoint",
    SnapshotType.NATIVE_SAVEPOINT: "native savepoint",
    SnapshotType.CHECKPOINT: "checkpoint",
}


def _kind_of_changelog(changelog: Changelog) -> str:
    kinds_of_base = {"RocksDB" if isinstance(part, Database) else part.framing.value for part in changelog.base}
    return f"changelog over {' and '.join(sorted(kinds_of_base))}" if kinds_of_base else "changelog"


def _writing_releases(snapshot: Snapshot) -> str:
    """Return which Flink releases write such metadata; the version of operator-state streams narrows them down."""
    version = snapshot.metadata.version
    stream_versions = {
        stream.parsed.version for o in snapshot.operators for stream in o.element_streams if stream.parsed is not None
    }
    if version == 4 and stream_versions == {6}:
        return "Flink 1.18 to 1.20"
    if version == 4 and stream_versions == {5}:
        return "Flink 1.16 or 1.17"
    return RELEASES_BY_VERSION[version]


def _operator(operator: Operator) -> InspectedOperator:
    entry = operator.entry
    headers = operator.parsed_headers
    keyed_holders = [*operator.managed_keyed, *operator.raw_keyed]
    elements = dealt_elements(operator)
    return InspectedOperator(
        operator_id=entry.operator_id,
        label=operator.label,
        uid=entry.uid or None,
        name=entry.name or None,
        parallelism=entry.parallelism,
        max_parallelism=entry.max_parallelism,
        key=type_name(headers[0].key_serializer) if headers else None,
        keyed_bytes=sum(holder.size for holder in keyed_holders) + sum(other.size for other in operator.other_keyed),
        operator_bytes=sum(
            stream.extent.length for stream in (*operator.element_streams, *operator.raw_element_streams)
        ),
        states=tuple(_states(operator, elements)),
        elements=elements,
        remark=", ".join(_remarks(operator)),
    )


def _states(operator: Operator, elements: Iterable[DealtState]) -> list[InspectedState]:
    """Return the keyed states that the headers list, and the operator states with the number of their `elements`."""
    states: dict[str, InspectedState] = {}
    for state in operator.keyed_states:
        types_text = ", ".join(map(type_name, state.content_serializers))
        states.setdefault(state.name, InspectedState(state.name, state.state_type, types_text))
    inspected_states = list(states.values())
    for dealt in elements:
        mode = f"raw {dealt.mode}" if dealt.raw else dealt.mode
        noun = ("copy", "copies") if mode == "BROADCAST" else ("element", "elements")
        types_text = f"{counted(dealt.elements, *noun)}, {human_bytes(dealt.bytes)}"
        inspected_states.append(InspectedState(dealt.state, mode, types_text, dealt.bytes))
    return inspected_states


def _remarks(operator: Operator) -> Iterable[str]:
    if operator.read_error is not None:
        yield "its state cannot be read"
    if operator.entry.fully_finished:
        yield "finished"
    elif operator.is_partially_finished:
        yield "partly finished"
    if operator.entry.coordinator is not None:
        yield "has a coordinator"
    if operator.raw_keyed_without_timers:
        yield "raw keyed state"
    if operator.raw_timers:
        yield "timers as raw keyed state"
    if not all(can_delimit_entries(stream.parsed) for stream in operator.heap_streams):
        yield "heap entries that cannot be delimited"
    if operator.changelogs:
        log_bytes = sum(changelog.log_size for changelog in operator.changelogs)
        yield f"{human_bytes(log_bytes)} of changes that are not materialised"
    if operator.has_channel_state:
        yield f"{human_bytes(operator.channel_bytes)} in flight"
