"""`rescale diff --by-file`: what a round of a live rescale would read, from the files of two checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from rescale.cli.main import main
from rescale.flink.metadata.handles import IncrementalHandle
from rescale.insight.durations import CORES, PROCESS_START_SECONDS, SECONDS_PER_DIRECTORY, SECONDS_PER_NEW_DIRECTORY
from rescale.insight.file_changes import FileChanges, file_changes
from rescale.insight.insight import plan_insight
from rescale.report.pages.file_changes import file_changes_page
from rescale.report.renderers.text import render_text
from rescale.rocksdb.manifest.manifest import read_manifest
from rescale.rocksdb.manifest.manifest_writer import write_manifest
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RequestError
from support import edited
from support.checkpoints import Checkpoints, checkpoints_in
from support.commands import Captured, answer
from support.pipeline import execute_without_spark, plan_continued, plan_rescale

INCREMENTAL = "2-rocksdb-incremental"
GB = 10**9


@pytest.fixture
def job(tmp_path: Path) -> Checkpoints:
    """Return a job with one checkpoint."""
    return checkpoints_in(INCREMENTAL, str(tmp_path / "job"), tmp_path / "scratch")


@pytest.fixture
def unshared_checkpoints(tmp_path: Path) -> tuple[str, str]:
    """Return two checkpoints with the same rows that share no file: between them, the databases were opened again."""
    a, b = (edited.relocated("2-rocksdb-native", tmp_path / name) for name in ("earlier", "later"))
    edited.edit(b, lambda metadata: replace(metadata, checkpoint_id=metadata.checkpoint_id + 1))
    edited.edit_files(b, "MANIFEST-", reopened_manifest)
    return str(a), str(b)


def reopened_manifest(data: bytes) -> bytes:
    """Return the MANIFEST of a database that was opened again.

    Its files have the same names and rows, but other sequence numbers, so they count as other files.
    """
    manifest = read_manifest(data, "")
    families = tuple(
        replace(
            family,
            files=tuple(replace(file, smallest_sequence=file.smallest_sequence - 1) for file in family.files),
        )
        for family in manifest.column_families
    )
    return write_manifest(replace(manifest, column_families=families), "")


def changes_between(a: str, b: str) -> FileChanges:
    return file_changes(open_snapshot(a), open_snapshot(b))


def test_shared_files_are_not_read(job: Checkpoints) -> None:
    earlier_checkpoint = job.newest
    job.copy_newest(job.number + 1)
    changes = changes_between(earlier_checkpoint, job.newest)
    assert changes.total("bytes") == changes.total("shared") > 0
    assert [changes.total(field) for field in ("added", "gone", "read", "entries")] == [0, 0, 0, 0]


def test_files_of_one_checkpoint_are_read_with_all_their_entries(unshared_checkpoints: tuple[str, str]) -> None:
    changes = changes_between(*unshared_checkpoints)
    tables = [
        table
        for operator in with_tables(open_snapshot(unshared_checkpoints[1])).operators
        for database in operator.databases
        for table in database.tables
    ]
    table_bytes = sum(table.extent.length for table in tables)
    assert [changes.total(field) for field in ("bytes", "shared", "added", "gone", "read")] == [
        table_bytes,
        0,
        table_bytes,
        table_bytes,
        2 * table_bytes,
    ]
    assert changes.total("entries") >= len(tables)


def test_bytes_to_read_are_those_that_a_continued_run_compares(
    unshared_checkpoints: tuple[str, str], tmp_path: Path
) -> None:
    earlier_checkpoint, later_checkpoint = unshared_checkpoints
    base = tmp_path / "base"
    execute_without_spark(plan_rescale(earlier_checkpoint, str(base), ["3"], max_parallelism=["1000"]))
    plan = plan_continued(later_checkpoint, str(tmp_path / "target"), str(base), ["3"], ["1000"])
    assert changes_between(earlier_checkpoint, later_checkpoint).total("read") == plan.bytes_compared > 0


def test_operator_state_and_heap_timers_are_moved_whole(job: Checkpoints) -> None:
    earlier_checkpoint = job.newest
    job.copy_newest(job.number + 1)
    changes = changes_between(earlier_checkpoint, job.newest)
    snapshot = open_snapshot(job.newest)
    keyed_bytes = sum(database.size for operator in snapshot.operators for database in operator.databases)
    assert changes.total("whole") == sum(operator.bytes for operator in snapshot.operators) - keyed_bytes > 0


def test_keyed_state_on_the_heap_is_moved_whole_with_a_reason(tmp_path: Path) -> None:
    a, b = (edited.relocated("2-heap-checkpoint", tmp_path / name) for name in "ab")
    edited.edit(b, lambda metadata: replace(metadata, checkpoint_id=metadata.checkpoint_id + 1))
    changes = changes_between(str(a), str(b))
    reasons = [operator.reason for operator in changes.operators if operator.reason]
    assert reasons
    assert all("does not keep all of its keyed state in RocksDB directories" in reason for reason in reasons)
    assert not changes.pays
    assert "Keyed state that each round moves whole:" in render_text(file_changes_page(changes))


def test_second_checkpoint_that_is_earlier_than_the_first_is_refused(job: Checkpoints) -> None:
    with pytest.raises(RequestError, match="B is not later than A"):
        changes_between(job.newest, job.newest)


@pytest.mark.parametrize(("read", "pays"), [(GB // 100, True), (3 * GB, False)])
def test_a_live_rescale_pays_off_if_a_round_is_much_faster_than_a_full_run(
    unshared_checkpoints: tuple[str, str], read: int, pays: bool
) -> None:
    changes = changes_between(*unshared_checkpoints)
    (operator, *_) = (operator for operator in changes.operators if operator.bytes)
    operator = msgspec.structs.replace(operator, bytes=3 * GB, added=GB, read=read, whole=0)
    estimated_changes = FileChanges.estimated(
        "/a", "/b", 10.0, (operator,), directory_count=1, new_directory_count=1, s3_side_count=0
    )
    assert estimated_changes.pays is pays
    text = render_text(file_changes_page(estimated_changes))
    assert ("pays off (rescale follow)" in text) is pays
    assert ("saves little here" in text) is not pays
    assert "100 MB/s of new SST files" in text


def test_a_round_takes_time_for_each_entry_and_each_directory_that_it_reads(
    unshared_checkpoints: tuple[str, str],
) -> None:
    changes = changes_between(*unshared_checkpoints)

    def seconds(entries: int, directories: int, new_directories: int) -> float:
        operators = [msgspec.structs.replace(operator, entries=entries) for operator in changes.operators[:1]]
        estimated_changes = FileChanges.estimated(
            "/a",
            "/b",
            1.0,
            (*operators,),
            directory_count=directories,
            new_directory_count=new_directories,
            s3_side_count=0,
        )
        return estimated_changes.round_seconds

    assert seconds(250_000, 1, 1) - seconds(0, 1, 1) == pytest.approx(1.0)
    assert seconds(0, 51, 1) - seconds(0, 1, 1) == pytest.approx(50 * SECONDS_PER_DIRECTORY / CORES)
    assert seconds(0, 1, 51) - seconds(0, 1, 1) == pytest.approx(50 * SECONDS_PER_NEW_DIRECTORY / CORES)
    directories = sum(len(operator.databases) for operator in open_snapshot(unshared_checkpoints[1]).operators)
    assert changes.round_seconds >= seconds(0, directories, directories)


def test_the_estimate_says_that_the_parallelism_stays_and_what_more_subtasks_cost(
    unshared_checkpoints: tuple[str, str], job: Checkpoints
) -> None:
    changes = changes_between(*unshared_checkpoints)
    operator_count = sum(operator.read > 0 for operator in changes.operators)
    assert operator_count
    assert changes.seconds_of_subtask == pytest.approx(operator_count * SECONDS_PER_NEW_DIRECTORY / CORES)
    text = render_text(file_changes_page(changes))
    assert "Estimate, if the parallelism stays: " in text
    assert f"Each further subtask adds {1000 * changes.seconds_of_subtask:.0f} ms to a round." in text
    earlier_checkpoint = job.newest
    job.copy_newest(job.number + 1)
    assert changes_between(earlier_checkpoint, job.newest).seconds_of_subtask == 0


def test_a_plan_with_a_base_is_estimated_like_a_round_between_its_checkpoints(
    unshared_checkpoints: tuple[str, str], tmp_path: Path
) -> None:
    """The estimate from two checkpoints assumes the job's own parallelism; the first plan here has the same."""
    earlier_checkpoint, later_checkpoint = unshared_checkpoints
    (parallelism,) = {o.parallelism for o in open_snapshot(later_checkpoint).operators if o.databases}

    def estimated_seconds(subtasks: int) -> float:
        shape, target = [str(subtasks)], tmp_path / f"base-{subtasks}"
        execute_without_spark(plan_rescale(earlier_checkpoint, str(target), shape, max_parallelism=["1000"]))
        plan = plan_continued(later_checkpoint, str(tmp_path / f"target-{subtasks}"), str(target), shape, ["1000"])
        assert plan.bytes_compared > 0
        return plan_insight(plan, open_snapshot(later_checkpoint)).durations.run

    changes = changes_between(earlier_checkpoint, later_checkpoint)
    same_seconds = estimated_seconds(parallelism)
    start_seconds = 2 * PROCESS_START_SECONDS  # a run starts a process for each of three steps, a round only one
    assert same_seconds - start_seconds == pytest.approx(changes.round_seconds, rel=0.2)
    assert estimated_seconds(parallelism + 10) - same_seconds == pytest.approx(
        10 * changes.seconds_of_subtask, rel=0.05
    )


def test_the_command_answers_in_json_and_refuses_changes_of_the_job(job: Checkpoints, capsys: Captured) -> None:
    earlier_checkpoint = job.newest
    job.copy_newest(job.number + 1)
    code, document = answer(capsys, "diff", earlier_checkpoint, job.newest, "--by-file")
    assert (code, document["b"]) == (0, job.newest)
    assert main(["diff", earlier_checkpoint, job.newest, "--by-file", "--drop", "uid"]) == 2
    assert "takes no changes of the job" in capsys.readouterr().err


def test_snapshots_of_different_jobs_are_refused(job: Checkpoints, tmp_path: Path) -> None:
    later_checkpoint = edited.relocated("2-sql", tmp_path / "sql")
    edited.edit(later_checkpoint, lambda metadata: replace(metadata, checkpoint_id=job.number + 1))
    with pytest.raises(RequestError, match="A and B belong to different jobs") as caught:
        changes_between(job.newest, str(later_checkpoint))
    assert caught.value.operator in {
        op.label for snap in (job.newest, later_checkpoint) for op in open_snapshot(str(snap)).operators
    }
    assert "operators of " in str(caught.value.expected)


@pytest.mark.parametrize(
    ("change", "message", "found_text"),
    [
        (lambda handle: replace(handle, backend_id="of-another-job"), "other state backends", "backend of-another-job"),
        (lambda handle: replace(handle, first_key_group=9), "other state backends", "key groups from 9 on"),
    ],
)
@pytest.mark.parametrize("id_difference", [1, -1])
def test_checkpoints_with_other_state_backends_are_refused(
    job: Checkpoints,
    change: Callable[[IncrementalHandle], IncrementalHandle],
    message: str,
    found_text: str,
    id_difference: int,
    capsys: Captured,
) -> None:
    """Two starts of one program have the same operators. `rescale run --base` refuses such a pair, too."""
    earlier_checkpoint = job.newest
    job.copy_newest(job.number + id_difference)
    job.rewrite(lambda metadata: edited.with_databases(metadata, change))
    code, document = answer(capsys, "diff", earlier_checkpoint, job.newest, "--by-file")
    assert code == 2
    assert message in document["what"]
    assert found_text in document["found"]
    assert document["operator"]
    assert earlier_checkpoint in document["expected"]


def test_checkpoints_between_which_the_job_was_rescaled_are_refused(job: Checkpoints) -> None:
    earlier_checkpoint = job.newest
    job.copy_newest(job.number + 1)
    job.rewrite(
        lambda metadata: replace(
            metadata, operators=tuple(replace(entry, parallelism=entry.parallelism + 1) for entry in metadata.operators)
        )
    )
    with pytest.raises(RequestError, match="another shape in B"):
        changes_between(earlier_checkpoint, job.newest)
