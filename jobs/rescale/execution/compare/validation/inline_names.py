"""Checks the names of streams that lie in `_metadata` itself (`ByteStreamStateHandle`'s `handleName`).

Flink identifies such a stream by its name: it treats two streams with the same name as one, whatever bytes they hold. A
result names them as it names files (`Plan.file_name`): operator, slot, subtask, the beginning of the plan's digest, and
in a RocksDB directory the file. Without a certificate the digest is unknown, but it must be the same in all names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from rescale.execution.compare.validation.headers import RERUN_ADVICE
from rescale.flink.metadata.checkpoint_metadata import OperatorState, SubtaskState
from rescale.flink.metadata.handles import IncrementalHandle, InlineStream, KeyGroupsHandle, Stream
from rescale.flink.slot import Slot
from rescale.plan.new_streams import META_STREAM
from rescale.snapshot.model import Snapshot
from rescale.text.errors import IntegrityError

_REWRITTEN_TABLE_PATTERN = r"\d+-\d+-\d+\.sst"
"""Pattern of the end of a rewritten SST file's name (`rows_writer`): first key group, state id and number."""

_BASE_COPY_PREFIX = "base-"
"""Prefix of SST files that a continued result takes over from its base (`writers.rocksdb.continued`)."""


class _ExpectedName(NamedTuple):
    """Beginning of the expected name of an inline stream; `local_name` is its file's name in a RocksDB directory."""

    stream: InlineStream
    beginning: str
    local_name: str | None


def check_inline_names(result: Snapshot) -> None:
    """Check that every inline stream has the name that a run gives it, and that no name occurs twice."""
    digest_pattern = "[0-9a-f]{8}"
    seen_names: set[str] = set()
    for operator in result.operators:
        for expected_name in _inline_streams(operator.entry):
            suffix = ""
            if expected_name.local_name is not None:
                file_name = re.escape(expected_name.local_name)
                suffix = (
                    f"-(?:(?:{_BASE_COPY_PREFIX})?{file_name}|{_REWRITTEN_TABLE_PATTERN})"
                    if (expected_name.local_name or "").endswith(".sst")
                    else f"-{file_name}"
                )
            match = re.fullmatch(
                f"{re.escape(expected_name.beginning)}-({digest_pattern}){suffix}", expected_name.stream.name
            )
            if match is None or expected_name.stream.name in seen_names:
                raise IntegrityError(
                    "a stream in the metadata has the wrong name"
                    if match is None
                    else "two streams in the metadata have the same name",
                    path=result.metadata_uri,
                    operator=operator.label,
                    expected=f"{expected_name.beginning}-<plan>"
                    + (f"-{expected_name.local_name}" if expected_name.local_name else ""),
                    found=expected_name.stream.name,
                    advice=RERUN_ADVICE,
                )
            digest_pattern = match[1]
            seen_names.add(expected_name.stream.name)


def _inline_streams(entry: OperatorState) -> Iterator[_ExpectedName]:
    for subtask in entry.subtasks:
        for slot, local_name, stream in _streams_of_subtask(subtask.state or SubtaskState()):
            if isinstance(stream, InlineStream):
                yield _ExpectedName(stream, f"{entry.operator_id}-{slot}-{subtask.index}", local_name)


def _streams_of_subtask(state: SubtaskState) -> Iterator[tuple[Slot, str | None, Stream | None]]:
    """Yield every stream of a subtask, with its file's name in a RocksDB directory."""
    for slot, elements in ((Slot.OPERATOR, state.managed_operator), (Slot.RAW_OPERATOR, state.raw_operator)):
        if elements is not None:
            yield slot, None, elements.stream
    for slot, keyed in ((Slot.KEYED, state.managed_keyed), (Slot.RAW_KEYED, state.raw_keyed)):
        match keyed:
            case KeyGroupsHandle():
                yield slot, None, keyed.stream
            case IncrementalHandle():
                yield slot, META_STREAM, keyed.meta
                yield from ((slot, file.name, file.stream) for file in (*keyed.shared, *keyed.private))
