"""Names of inline streams: the ones that a run gives pass, in any shape and kind of state, and all others fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from rescale.execution.compare.validation.inline_names import check_inline_names
from rescale.execution.compare.validation.validation import open_result
from rescale.flink.metadata.checkpoint_metadata import Metadata
from rescale.flink.metadata.handles import InlineStream
from rescale.flink.metadata.reader import read_metadata
from rescale.flink.metadata.writer import write_metadata
from rescale.snapshot.model import Snapshot
from rescale.text.errors import IntegrityError
from support import snapshots
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import slow


def publish(name: str, folder: Path, **request: Any) -> Path:
    plan = plan_rescale(snapshots.directory(name), str(folder / "target"), **request)
    execute_without_spark(plan)
    return folder / "target"


@pytest.fixture(scope="module")
def canonical(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return publish("2-canonical-rocksdb", tmp_path_factory.mktemp("canonical"), parallelism=["4"])


def open_changed(target: Path, change: Callable[[Metadata], Metadata] = lambda metadata: metadata) -> Snapshot:
    candidate = target.parent / "changed"
    candidate.write_bytes(write_metadata(change(read_metadata((target / "_metadata").read_bytes(), ""))))
    return open_result(str(candidate), str(target))


def inline_streams(value: object) -> list[InlineStream]:
    """Return all inline streams of a document, at any depth."""
    if isinstance(value, InlineStream):
        return [value]
    if isinstance(value, tuple):
        return [stream for part in value for stream in inline_streams(part)]
    fields = getattr(value, "__dataclass_fields__", ())
    return [stream for field in fields if field != "coordinator" for stream in inline_streams(getattr(value, field))]


def renamed(metadata: Metadata, stream_index: int, name: str) -> Metadata:
    """Return the metadata with another name for the inline stream of this number."""
    data = write_metadata(metadata)
    old = inline_streams(metadata)[stream_index].name
    assert len(old) == len(name)
    assert data.count(old.encode()) == 1
    return read_metadata(data.replace(old.encode(), name.encode()), "")


def test_names_that_a_run_gives_pass(canonical: Path) -> None:
    result = open_changed(canonical)
    assert len(inline_streams(result.metadata)) > 3
    check_inline_names(result)


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("2-raw", {"parallelism": ["3"]}),
        ("2-clicks", {"max_parallelism": ["64"]}),
        slow("2-rocksdb-native", {"parallelism": ["3"]}),
        slow("2-rocksdb-native", {"max_parallelism": ["64"]}),
        slow("2-rocksdb-native", {}),
    ],
)
def test_names_of_all_kinds_of_state_pass(name: str, request_: dict[str, Any], tmp_path: Path) -> None:
    with patch("rescale.planning.streams.inline.INLINE_BUDGET", 1 << 30):
        target = publish(name, tmp_path, **request_)
    result = open_changed(target)
    assert inline_streams(result.metadata)
    check_inline_names(result)


def test_each_character_of_a_name_is_compared(canonical: Path) -> None:
    name = inline_streams(open_changed(canonical).metadata)[0].name
    for position, character in enumerate(name):
        other_name = name[:position] + chr(ord(character) ^ 1) + name[position + 1 :]
        with pytest.raises(IntegrityError) as raised:
            check_inline_names(
                open_changed(canonical, lambda metadata, other_name=other_name: renamed(metadata, 0, other_name))
            )
        assert other_name in (raised.value.found or "") or "stream" in raised.value.what
