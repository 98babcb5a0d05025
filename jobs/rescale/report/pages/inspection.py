"""What `inspect` shows: a snapshot at a glance, as JSON values and as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from rescale.flink.keyed.header import KeyedHeader
from rescale.flink.keyed.heap.heap_entries import tells_entries
from rescale.flink.metadata.checkpoint_metadata import RELEASES
from rescale.flink.metadata.properties import SnapshotType
from rescale.flink.release_line import ReleaseLine
from rescale.flink.serializers.reading import type_name
from rescale.flink.state_meta_info import StateKind
from rescale.insight.insight import snapshot_insight
from rescale.report.page import Block, Listed, Page, Table, Warned, paragraph, table
from rescale.report.pages.elements import dealt_elements
from rescale.report.pages.insights import insight_blocks, insight_document
from rescale.report.pages.kafka import kafka_document, kafka_tables
from rescale.report.pages.other_release import prospects_document, prospects_section
from rescale.report.renderers.text import text_of
from rescale.report.shortening import MOST_OPERATORS, cut_table, first, left_operators, state_bytes
from rescale.report.units import counted, human_bytes, when
from rescale.snapshot.findings import findings
from rescale.snapshot.given_names import said_of_unused
from rescale.snapshot.kafka.audit import spread
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.locate import is_checkpoint_directory
from rescale.snapshot.model import Changelog, Database, Operator, Snapshot
from rescale.snapshot.prospects import prospects

_WITHOUT_NAMES = (
    "Flink 1.x stores no names of operators, only ids: list their uids, in a file for --uids or in the form, and they "
    "are shown by these. A request may name them by uid in any case."
)


def inspection(
    snapshot: Snapshot, kafka: Sequence[KafkaOffsets] = (), line: ReleaseLine | None = None
) -> dict[str, Any]:
    """`line` is another release line of Flink that shall restore the snapshot, if one is asked for."""
    metadata = snapshot.metadata
    return {
        "snapshot": snapshot.directory,
        "kind": _kind(snapshot),
        "written_by": _written_by(snapshot),
        "metadata_version": metadata.version,
        "checkpoint_id": metadata.checkpoint_id,
        "taken": snapshot.taken.isoformat(sep=" ", timespec="seconds") if snapshot.taken else None,
        "files": len(snapshot.files) - 1,
        "bytes": snapshot.bytes,
        "missing": list(snapshot.missing),
        "operators": [_operator(operator) for operator in snapshot.operators],
        "kafka": [kafka_document(offsets) for offsets in kafka],
        "warnings": [
            *findings(snapshot, kafka),
            *(str(one) for offsets in kafka for one in spread(offsets, offsets.operator.parallelism)),
            *said_of_unused(snapshot.unused_names),
        ],
        "insight": insight_document(snapshot_insight(snapshot)),
        "for_flink": None if line is None else prospects_document(prospects(snapshot, line, kafka)),
    }


def inspection_text(document: dict[str, Any]) -> str:
    return text_of(inspection_page(document))


def inspection_page(document: dict[str, Any]) -> Page:
    operators = document["operators"]
    shown = first(operators, MOST_OPERATORS, lambda operator: -state_bytes(operator))
    blocks: list[Block] = [
        Listed(
            document["snapshot"],
            (
                f"{document['kind']}, written by {document['written_by']}, checkpoint {document['checkpoint_id']}, "
                f"its _metadata written {when(document['taken'])}",
                f"{counted(len(operators), 'operator')}, {counted(document['files'], 'file')}, "
                f"{human_bytes(document['bytes'])} of state",
            ),
        ),
        _operators_table(shown),
        *left_operators(operators, shown),
    ]
    states = [
        (operator["label"], state["name"], state["type"], state["content"])
        for operator in shown
        for state in operator["states"]
    ]
    if states and all(operator["label"] == operator["operator_id"] for operator in operators):
        blocks.append(paragraph(_WITHOUT_NAMES))
    blocks += cut_table(
        ("operator", "state", "type", "content"),
        states,
        "more state of these operators",
        "more states of these operators",
    )
    blocks += kafka_tables(document["kafka"])
    if document["for_flink"] is not None:
        blocks.append(prospects_section(document["for_flink"], document["snapshot"]))
    blocks += insight_blocks(document["insight"])
    return Page((*blocks, *map(Warned, document["warnings"])))


def _operators_table(operators: Sequence[dict[str, Any]]) -> Table:
    return table(
        ("operator", "parallelism", "max", "key", "keyed", "operator state", "remark"),
        [
            (
                operator["label"],
                operator["parallelism"],
                operator["max_parallelism"],
                operator["key"] or "",
                human_bytes(operator["keyed_bytes"]) if operator["keyed_bytes"] else "",
                human_bytes(operator["operator_bytes"]) if operator["operator_bytes"] else "",
                operator["remark"],
            )
            for operator in operators
        ],
    )


def _kind(snapshot: Snapshot) -> str:
    others = {type(other.handle).__name__ for o in snapshot.operators for other in o.other_keyed}
    framings = {stream.framing for o in snapshot.operators for stream in o.keyed}
    databases = {"ForSt" if _is_forst(snapshot) else "RocksDB" for o in snapshot.operators if o.databases}
    changelogs = {_kind_of_changelog(changelog) for o in snapshot.operators for changelog in o.changelogs}
    keyed = sorted([*(framing.value for framing in framings), *databases, *changelogs, *others])
    content = f"{', '.join(keyed)} keyed state" if keyed else "no keyed state"
    if snapshot.type is not SnapshotType.UNKNOWN:
        return f"{_KINDS[snapshot.type]} ({content})"
    # Before version 4 the metadata does not say, nor where the State Processor API wrote it: only checkpoints lie in
    # such directories.
    return f"{'checkpoint' if is_checkpoint_directory(snapshot.directory) else 'savepoint'} ({content})"


def _is_forst(snapshot: Snapshot) -> bool:
    """Whether there are states that only ForSt writes; those of the older API it writes as RocksDB does."""
    headers = [header for operator in snapshot.operators for header in _headers(operator)]
    return any(state.kind is StateKind.KEY_VALUE_V2 for header in headers for state in header.states)


_KINDS = {
    SnapshotType.CANONICAL_SAVEPOINT: "canonical savepoint",
    SnapshotType.NATIVE_SAVEPOINT: "native savepoint",
    SnapshotType.CHECKPOINT: "checkpoint",
}


def _kind_of_changelog(changelog: Changelog) -> str:
    below = {"RocksDB" if isinstance(part, Database) else part.framing.value for part in changelog.base}
    return f"changelog over {' and '.join(sorted(below))}" if below else "changelog"


def _written_by(snapshot: Snapshot) -> str:
    """The Flink releases that write such a file; the operator-state files narrow it down since 1.18."""
    version = snapshot.metadata.version
    stream_versions = {
        stream.parsed.version for o in snapshot.operators for stream in o.operator if stream.parsed is not None
    }
    if version == 4 and stream_versions == {6}:
        return "Flink 1.18 to 1.20"
    if version == 4 and stream_versions == {5}:
        return "Flink 1.16 or 1.17"
    return RELEASES[version]


def _operator(operator: Operator) -> dict[str, Any]:
    entry = operator.entry
    headers = _headers(operator)
    keyed = [*operator.managed_keyed, *operator.raw_keyed]
    return {
        "operator_id": entry.operator_id,
        "label": operator.label,
        "uid": entry.uid or None,
        "name": entry.name or None,
        "parallelism": entry.parallelism,
        "max_parallelism": entry.max_parallelism,
        "key": type_name(headers[0].key_serializer) if headers else None,
        "keyed_bytes": sum(holder.size for holder in keyed) + sum(other.size for other in operator.other_keyed),
        "operator_bytes": sum(s.extent.length for s in (*operator.operator, *operator.raw_operator)),
        "states": _states(operator),
        "elements": dealt_elements(operator),
        "remark": ", ".join(_remarks(operator)),
    }


def _states(operator: Operator) -> list[dict[str, Any]]:
    """Keyed states by their headers; operator states with the number of their elements."""
    states: dict[str, dict[str, Any]] = {}
    for header in _headers(operator):
        for state in header.states:
            content = ", ".join(map(type_name, state.content_serializers))
            states.setdefault(state.name, {"name": state.name, "type": state.state_type, "content": content})
    elements: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for slot, streams in (("", operator.operator), ("raw ", operator.raw_operator)):
        for element_stream in streams:
            for part in element_stream.states:
                key = (part.name, slot + part.mode.name)
                elements[key] += len(part.elements)
                sizes[key] += sum(extent.length for extent in part.elements)
    result = list(states.values())
    for (name, mode), count in elements.items():
        size = sizes[name, mode]
        number = counted(count, "copy", "copies") if mode == "BROADCAST" else counted(count, "element")
        result.append(
            {
                "name": name,
                "type": mode,
                "content": f"{number}, {human_bytes(size)}",
                "bytes": size,
            }
        )
    return result


def _headers(operator: Operator) -> list[KeyedHeader]:
    """The keyed headers that could be understood."""
    return [header for header in operator.keyed_headers if header is not None]


def _remarks(operator: Operator) -> Iterable[str]:
    if operator.entry.fully_finished:
        yield "finished"
    elif operator.partially_finished:
        yield "partly finished"
    if operator.entry.coordinator is not None:
        yield "has a coordinator"
    if operator.own_raw_keyed:
        yield "raw keyed state"
    if operator.raw_timers:
        yield "timers as raw keyed state"
    if not all(tells_entries(stream.parsed) for stream in operator.heap_streams):
        yield "entries of the heap's own that cannot be told apart"
    if operator.changelogs:
        yield f"{human_bytes(sum(one.log_size for one in operator.changelogs))} of changes that are not materialised"
    if operator.has_channel_state:
        yield f"{human_bytes(operator.channel_bytes)} in flight"
