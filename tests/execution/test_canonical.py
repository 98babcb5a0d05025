"""RocksDB directories become canonical savepoints in any shape, equal to Flink's own savepoint at the same moment."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path

import pytest

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.sources.record_sources import SourceReader, sources_of
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.keyed.record_name import record_name_parts
from rescale.plan.operator_plan import OperatorPlan
from rescale.snapshot.model import Operator
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError
from support import snapshots
from support.pipeline import execute, execute_without_spark, plan_rescale
from support.slow import pairs_in_turn, slow

WITH_TWIN = sorted(
    folder.name
    for folder in snapshots.FIXTURES.iterdir()
    if (folder / "canonical").is_dir()
    and json.loads((folder / "expected.json").read_text())["directory_prefix"] is None
)
DATABASES = [name for name in WITH_TWIN if any(operator.databases for operator in snapshots.opened(name).operators)]
HEAP_TIMERS = "2-rocksdb-heap-timers"
SHAPES = [((), ()), (("5",), ()), (("3",), ("1000",)), (("2",), ("64",))]


NAMES_AND_SHAPES = list(product(WITH_TWIN, SHAPES))


@pytest.mark.parametrize(
    ("name", "shape"), [slow(*shape) if i % 5 else shape for i, shape in enumerate(NAMES_AND_SHAPES)]
)
def test_canonical_result_is_equal_to_the_savepoint_that_flink_took(
    name: str, shape: tuple[tuple[str, ...], tuple[str, ...]], tmp_path: Path
) -> None:
    parallelism, max_parallelism = shape
    source, target = snapshots.directory(name), str(tmp_path / "target")
    plan = plan_rescale(source, target, parallelism, max_parallelism=max_parallelism, format="canonical")
    execute_without_spark(plan)
    twin = open_snapshot(str(snapshots.FIXTURES / name / "canonical"))
    assert validate_published(source, target, InProcessTasks()).verdict == "complete"
    assert diff_snapshots(twin, open_snapshot(target), InProcessTasks()).equal


def distinct_key_count(operator: Operator, files: SnapshotFiles) -> int:
    """Return the number of distinct keys in all canonical state of an operator, counted record by record."""
    keys = set()
    reader = SourceReader(files)
    for stream in operator.keyed:
        assert stream.parsed is not None
        for source in sources_of(stream, operator.max_parallelism):
            for records in reader.batches(source):
                for start, limit, state in zip(records.key_starts, records.key_ends, records.state_ids, strict=True):
                    state_name = stream.parsed.states[state].name
                    keys.add(record_name_parts(stream.parsed, state_name, records.data[start:limit].tobytes())["key"])
    return len(keys)


@pytest.mark.parametrize("name", [HEAP_TIMERS, "1.15.4-full-heap-timers"])
@pytest.mark.parametrize("max_parallelism", [(), ("1000",)])
def test_key_with_state_and_timers_in_different_streams_counts_once(
    name: str, max_parallelism: tuple[str, ...], tmp_path: Path
) -> None:
    target = str(tmp_path / "target")
    plan = plan_rescale(snapshots.directory(name), target, max_parallelism=max_parallelism, format="canonical")
    execute_without_spark(plan)
    result = open_snapshot(target)
    count_by_operator = {
        operator.operator_id: distinct_key_count(operator, result.contents)
        for operator in result.operators
        if operator.keyed
    }
    certificate = validate_published(plan.source, target, InProcessTasks())
    certified_counts = {
        proof.operator_id: proof.records.distinct_keys_at_least for proof in certificate.operators if proof.records
    }
    assert {operator_id: count_by_operator[operator_id] for operator_id in certified_counts} == certified_counts != {}


@pytest.fixture
def files_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write all streams as files, however small."""
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", -1)


@pytest.mark.usefixtures("files_only")
@pytest.mark.parametrize("name", WITH_TWIN[:1])
def test_spark_writes_the_same_bytes_as_the_in_process_loop(name: str, tmp_path: Path) -> None:
    contents = []
    for run in (execute, execute_without_spark):
        target = tmp_path / run.__name__
        run(plan_rescale(snapshots.directory(name), str(target), ["3"], format="canonical"))
        contents.append(sorted(path.read_bytes() for path in target.iterdir() if path.name != "_metadata"))
    assert contents[0] == contents[1] != []


@pytest.mark.usefixtures("files_only")
@pytest.mark.parametrize(("name", "parallelism"), pairs_in_turn(WITH_TWIN, [2, 5, 7], quick=1))
def test_state_in_order_is_written_with_the_same_bytes_as_shuffled_state(
    name: str, parallelism: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for run_name in ("in order", "shuffled"):
        target = tmp_path / run_name
        execute_without_spark(
            plan_rescale(snapshots.directory(name), str(target), [str(parallelism)], format="canonical")
        )
        contents.append(sorted(path.read_bytes() for path in target.iterdir() if path.name != "_metadata"))
        monkeypatch.setattr(OperatorPlan, "rows_are_in_order", False)
    assert contents[0] == contents[1] != []


@pytest.mark.usefixtures("files_only")
@pytest.mark.parametrize("name", WITH_TWIN[:1])
def test_changed_canonical_result_is_found(name: str, tmp_path: Path) -> None:
    plan = plan_rescale(snapshots.directory(name), str(tmp_path / "target"), format="canonical")
    execute_without_spark(plan)
    file = max((tmp_path / "target").glob("*-keyed-*"), key=lambda path: path.stat().st_size)
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(IntegrityError):
        validate_published(plan.source, plan.target, InProcessTasks())


@pytest.mark.parametrize(
    ("wrong_bytes", "error", "message"),
    [
        (b"user-x", IntegrityError, "does not give the key group that contains it"),
        (b"\xff", SnapshotError, "a timer that cannot be read"),
    ],
)
@pytest.mark.parametrize(
    ("result_format", "max_parallelism"), [("canonical", ()), ("keep", ("1000",)), ("keep", ("64",))]
)
def test_damaged_heap_timer_is_found(
    result_format: str,
    max_parallelism: tuple[str, ...],
    wrong_bytes: bytes,
    error: type[RescaleError],
    message: str,
    tmp_path: Path,
) -> None:
    """The timer is on the heap beside RocksDB, in raw keyed state."""
    source = shutil.copytree(snapshots.directory(HEAP_TIMERS), tmp_path / "source")
    snapshot = open_snapshot(str(source))
    (operator,) = (operator for operator in snapshot.operators if operator.heap_timers)
    extent = operator.heap_timers[0].extent
    file = Path(snapshot.files[extent.file][0])
    position = file.read_bytes().index(b"user-1") - (len(wrong_bytes) == 1)
    file.write_bytes(file.read_bytes()[:position] + wrong_bytes + file.read_bytes()[position + len(wrong_bytes) :])
    plan = plan_rescale(str(source), str(tmp_path / "target"), max_parallelism=max_parallelism, format=result_format)
    with pytest.raises(error, match=message) as caught:
        execute_without_spark(plan)
    assert caught.value.operator == operator.label
    assert result_format == "keep" or not (tmp_path / "target").exists()
    assert not (tmp_path / "target" / "_metadata").exists()
    assert not list((tmp_path / "target").glob("*-rawkeyed-*"))


@pytest.mark.parametrize("result_format", ["canonical", "rocksdb"])
def test_different_timers_in_keyed_and_raw_keyed_state_are_refused(result_format: str, tmp_path: Path) -> None:
    """A full checkpoint of RocksDB before Flink 1.16 has its timers twice: as keyed and as raw keyed state."""
    source = shutil.copytree(snapshots.directory("1.15.4-full-heap-timers"), tmp_path / "source")
    snapshot = open_snapshot(str(source))
    (operator,) = (operator for operator in snapshot.operators if operator.duplicate_timers)
    assert not operator.heap_timers
    file = Path(snapshot.files[operator.duplicate_timers[0].extent.file][0])
    content = bytearray(file.read_bytes())
    namespace_position = content.index(b"\0", content.index(b"user-1"))
    content[namespace_position + 8] ^= 1  # last byte of the timer's time
    file.write_bytes(content)
    plan = plan_rescale(str(source), str(tmp_path / "target"), format=result_format)
    with pytest.raises(SnapshotError, match="stored twice") as caught:
        execute_without_spark(plan)
    assert str(caught.value.state).startswith("_timer_state/")
    assert not (tmp_path / "target" / "_metadata").exists()
