"""RocksDB's process may end at any point: the parent process reports this and continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly import compaction
from rescale.rocksdb.assembly.assembled_database import SourceDatabase
from rescale.rocksdb.assembly.compaction import StoredDatabase, compacted_database
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine import child, guarded_database, open_database
from rescale.rocksdb.engine.directory import fetched_database
from rescale.rocksdb.engine.scan import StateRows
from rescale.text.errors import SnapshotError, StoreError
from support.airflow_server import wait_for
from support.databases import Rows, Stored, databases, read_file, read_rows
from support.rocksdb_writer import written
from support.watching import has_ended

NAME = "1.20-rocksdb-changing"


def rows_of(flink_database: Stored, scratch: Path) -> Rows:
    return read_rows(
        flink_database.files, flink_database.states, flink_database.key_groups, flink_database.max_parallelism, scratch
    )


def table_names(flink_database: Stored) -> set[str]:
    return {file.name for file in flink_database.files if file.name.endswith(".sst")}


def kill_by(signal_number: signal.Signals) -> Callable[..., None]:
    def kill(*_: object) -> None:
        os.kill(os.getpid(), signal_number)

    return kill


@pytest.mark.usefixtures("new_children")
@pytest.mark.parametrize("signal_number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS])
@pytest.mark.parametrize(
    ("module", "function"), [(guarded_database, "opened_database"), (open_database, "RowIterator")]
)
def test_crash_of_rocksdb_is_reported_with_signal_files_and_state(
    signal_number: signal.Signals, module: object, function: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flink_database = databases(NAME)[0]
    with monkeypatch.context() as patch:
        patch.setattr(module, function, kill_by(signal_number))
        with pytest.raises(SnapshotError, match="RocksDB crashed while reading") as caught:
            rows_of(flink_database, tmp_path)
    message = caught.value.found or ""
    assert signal_number.name in message
    named_tables = {name for name in table_names(flink_database) if name in message}
    assert caught.value.path == next(file.uri for file in flink_database.files if file.name == "CURRENT")
    if function == "opened_database":
        assert (named_tables, caught.value.state) == (table_names(flink_database), None)
    else:
        manifest = checked_manifest(flink_database.files, read_file, flink_database.states)
        (family,) = (family for family in manifest.column_families if family.name == flink_database.states[0])
        assert (named_tables, caught.value.state) == ({file.name for file in family.files}, flink_database.states[0])
    assert not list(tmp_path.iterdir())
    assert rows_of(flink_database, tmp_path), "the next process is broken, too"


@pytest.mark.usefixtures("new_children")
def test_crash_of_rocksdb_during_compaction_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flink_database = databases(NAME)[0]
    manifest = checked_manifest(flink_database.files, read_file, flink_database.states)
    source = StoredDatabase(
        SourceDatabase("", manifest, flink_database.key_groups), {file.name: file for file in flink_database.files}
    )
    monkeypatch.setattr(compaction, "_compact", kill_by(signal.SIGSEGV))
    with (
        pytest.raises(SnapshotError, match="RocksDB crashed while reading") as caught,
        compacted_database([source], KeyGroupRange(5, 9), 128, tmp_path, "place"),
    ):
        pass
    assert "SIGSEGV" in (caught.value.found or "")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("new_children")
def test_killed_child_raises_an_error_worth_a_retry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(guarded_database, "opened_database", kill_by(signal.SIGKILL))
    with pytest.raises(StoreError, match="RocksDB reads a database was killed") as caught:
        rows_of(databases(NAME)[0], tmp_path)
    assert caught.value.found == "SIGKILL"


def test_child_without_an_answer_in_time_is_ended(
    new_children: list[child.Child], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(child, "_BASE_SECONDS", 1)
    monkeypatch.setattr(guarded_database, "opened_database", lambda *_: time.sleep(100))
    with pytest.raises(StoreError, match="RocksDB reads a database was killed") as caught:
        rows_of(databases(NAME)[0], tmp_path)
    assert caught.value.found == "no answer in 1 s"
    assert not new_children


@pytest.mark.usefixtures("new_children")
def test_memory_of_the_child_is_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(child, "_MEMORY_BYTES", 1 << 28)
    monkeypatch.setattr(guarded_database, "opened_database", lambda *_: bytearray(1 << 29))
    with pytest.raises(StoreError, match="ran out of a resource") as caught:
        rows_of(databases(NAME)[0], tmp_path)
    assert "MemoryError" in (caught.value.found or "")


def test_child_is_reused_for_databases_and_threads_have_at_most_one_each(
    new_children: list[child.Child], tmp_path: Path
) -> None:
    flink_database = databases(NAME)[0]
    expected = rows_of(flink_database, tmp_path)
    (first,) = new_children
    assert rows_of(flink_database, tmp_path) == expected
    assert new_children == [first]
    with ThreadPoolExecutor(4) as pool:
        assert all(rows == expected for rows in pool.map(lambda _: rows_of(flink_database, tmp_path), range(12)))
    assert 1 <= len(new_children) <= 4


@pytest.mark.usefixtures("new_children")
def test_iterators_are_closed_before_the_database_if_reading_stops_early(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In the other order, RocksDB sometimes crashes."""
    flink_database, close_log = databases(NAME)[0], tmp_path / "closed"
    opened, rows = guarded_database.opened_database, open_database.OpenDatabase.rows

    def logging_close(name: str, original: Callable[..., AbstractContextManager[Any]]) -> Callable[..., Any]:
        @contextmanager
        def until_closed(*arguments: Any) -> Iterator[Any]:
            with ExitStack() as closing:
                closing.callback(lambda: close_log.open("a").write(f"{name}\n"))
                yield closing.enter_context(original(*arguments))

        return until_closed

    monkeypatch.setattr(guarded_database, "opened_database", logging_close("database", opened))
    monkeypatch.setattr(open_database.OpenDatabase, "rows", logging_close("rows", rows))
    with (
        fetched_database(flink_database.files, tmp_path) as directory,
        guarded_database.guarded_database(directory, flink_database.states) as database,
    ):
        assert next(
            database.read(
                StateRows(flink_database.max_parallelism, flink_database.states[0], 0, flink_database.key_groups)
            )
        )
    assert close_log.read_text().split() == ["rows", "database"]


@pytest.mark.usefixtures("new_children")
def test_error_of_the_caller_is_raised_though_the_child_crashes_on_closing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flink_database = databases(NAME)[0]

    @contextmanager
    def crash_on_closing(*_: object) -> Iterator[None]:
        yield None
        os.kill(os.getpid(), signal.SIGABRT)

    monkeypatch.setattr(guarded_database, "opened_database", crash_on_closing)
    with (
        fetched_database(flink_database.files, tmp_path) as directory,
        pytest.raises(StoreError, match="the disk is full"),
        guarded_database.guarded_database(directory, flink_database.states),
    ):
        raise StoreError("the disk is full")


class Stopped(Exception):  # noqa: N818
    """Raised in the caller, in place of an interruption from outside, which may come at any point."""


def test_child_is_ended_if_the_caller_stops_during_an_answer(
    new_children: list[child.Child], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flink_database = databases(NAME)[0]

    def raise_stopped(*_: object) -> None:
        raise Stopped

    expected = rows_of(flink_database, tmp_path)
    first_child = psutil.Process(new_children[0].pid)
    monkeypatch.setattr(new_children[0]._connection, "poll", raise_stopped)
    with pytest.raises(Stopped):
        rows_of(flink_database, tmp_path)
    assert not first_child.is_running()
    assert not new_children
    assert rows_of(flink_database, tmp_path) == expected


def test_child_that_read_a_large_row_is_not_reused(new_children: list[child.Child], tmp_path: Path) -> None:
    with written(tmp_path / "db", ["state"]) as writer:
        for i, size in enumerate((5_000_000, 70_000_000, 9)):
            writer.put("state", bytes([i]) + b"key", i.to_bytes(1, "big") * size)
        files = writer.checkpoint(tmp_path / "checkpoint")
    rows = read_rows(files, ["state"], KeyGroupRange(0, 127), 128, tmp_path)
    sizes = [(len(value), value[:1], value[-1:]) for value in rows.values()]
    assert sizes == [(5_000_000, b"\0", b"\0"), (70_000_000, b"\1", b"\1"), (9, b"\2", b"\2")]
    assert not new_children


def test_children_end_with_their_parent(tmp_path: Path) -> None:
    """The parent is killed while the child is busy in RocksDB."""
    program = (
        "import os, sys, time; from pathlib import Path; from support.databases import databases, read_rows;"
        "from rescale.rocksdb.engine import guarded_database;"
        "guarded_database.opened_database = lambda *_: (print(os.getpid(), flush=True), time.sleep(100));"
        "d = databases('2-rocksdb-native')[0];"
        "read_rows(d.files, d.states, d.key_groups, d.max_parallelism, Path(sys.argv[1]))"
    )
    python_path = ":".join(str(Path(__file__).parents[levels] / folder) for levels, folder in ((2, "."), (3, "jobs")))
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": python_path},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        child_process = psutil.Process(int(process.stdout.readline()))
        assert child_process.ppid() == process.pid
        process.kill()
    wait_for(lambda: has_ended(child_process), "the child to end", 300)


def test_snapshot_error_passes_unchanged_and_the_child_is_kept(new_children: list[child.Child], tmp_path: Path) -> None:
    flink_database = databases(NAME)[0]
    rows_of(flink_database, tmp_path)
    (first_child,) = new_children
    with pytest.raises(SnapshotError) as caught:
        read_rows(
            flink_database.files, ["unknown"], flink_database.key_groups, flink_database.max_parallelism, tmp_path
        )
    assert caught.value.path
    assert new_children == [first_child]
