"""New SST files: sorted, cut, the same bytes for the same rows, and read by both families of Flink's RocksDB."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.errors import IntegrityError, SnapshotError, StoreError
from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.new_database import NewTable, manifest_of
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.engine.scan import RowReader
from rescale.rocksdb.engine.sorted_runs import SortedRuns
from rescale.rocksdb.engine.table_writer import Rows, TableWriter, WrittenTable, sorted_order
from rescale.rocksdb.manifest.manifest_writer import write_current, write_manifest
from rescale.rocksdb.sst.table import SstTable
from rescale.rocksdb.stored_files import CURRENT
from support.assembled import Part, check, check_our_reading, go_on
from support.databases import read_file
from support.flinks_rocksdb import FlinksRocksdb
from support.rocksdb_writer import listed


def rows(pairs: Iterable[tuple[bytes, bytes]]) -> Rows:
    """In one buffer, with the length of the value between key and value, as records have it."""
    data, places = bytearray(), []
    for key, value in pairs:
        at = len(data)
        data += key + len(value).to_bytes(4, "big") + value
        places.append((at, at + len(key), at + len(key) + 4, len(data)))
    columns = np.array(places, np.int64).reshape(-1, 4).T
    return Rows(np.frombuffer(bytes(data) or b"\0", np.uint8), *(column.copy() for column in columns))


def write(
    folder: Path, batches: Sequence[Sequence[tuple[bytes, bytes]]], *, name: str = "place", table_bytes: int = 1 << 26
) -> list[WrittenTable]:
    """The rows as they come."""
    tables: list[WrittenTable] = []
    folder.mkdir(parents=True, exist_ok=True)
    with TableWriter(
        folder, name, created=1_700_000_000, path="s3://bucket/file", state="state", table_bytes=table_bytes
    ) as writer:
        for batch in batches:
            tables += writer.write(rows(batch), np.arange(len(batch)))
        tables += writer.finish()
    return tables


def random_rows(number: int) -> list[tuple[bytes, bytes]]:
    rng = random.Random(number)
    keys = {bytes([rng.randrange(128)]) + rng.randbytes(rng.randint(1, 20)) for _ in range(number)}
    return [(key, rng.randbytes(rng.randint(0, 200))) for key in sorted(keys)]


@given(st.lists(st.binary(max_size=24) | st.text("ab\0", max_size=30).map(str.encode), unique=True))
def test_any_keys_are_sorted_as_bytes(keys: list[bytes]) -> None:
    order = sorted_order(rows((key, b"") for key in keys))
    assert [keys[i] for i in order] == sorted(keys)


def test_many_keys_with_much_in_common() -> None:
    rng = random.Random(1)
    keys = [b"\1" * 17 + b"%d" % rng.randrange(10**9) + b"\0" * rng.randint(0, 9) for _ in range(20_000)]
    assert [keys[i] for i in sorted_order(rows((key, b"") for key in keys))] == sorted(keys)


def test_files_are_cut_and_say_what_they_hold(tmp_path: Path) -> None:
    pairs = random_rows(3000)
    tables = write(tmp_path, [pairs[:1000], [], pairs[1000:1001], pairs[1001:]], table_bytes=50_000)
    assert len(tables) == 7
    found: list[tuple[bytes, bytes]] = []
    for table in tables:
        data = table.path.read_bytes()
        opened = SstTable(lambda start, size, data=data: data[start : start + size], len(data), table.path.name)
        some = [(row.key, row.value) for _, block in opened.index() for row in opened.rows(block)]
        assert (len(data), len(some)) == (table.size, table.rows)
        assert (opened.needs_flink_2, opened.properties.global_sequence) == (False, 0)
        assert (some[0][0], some[-1][0]) == (table.smallest, table.largest)
        found += some
    assert found == pairs
    sizes = [
        sum(len(key) + len(value) for key, value in pairs if table.smallest <= key <= table.largest) for table in tables
    ]
    assert all(50_000 <= size < 50_300 for size in sizes[:-1])


def test_a_file_that_is_full_with_the_last_row(tmp_path: Path) -> None:
    tables = write(tmp_path, [[(b"\1", b"12345678")], [(b"\2", b"12345678")]], table_bytes=9)
    assert [(table.smallest, table.largest) for table in tables] == [(b"\1", b"\1"), (b"\2", b"\2")]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["000000.sst", "000001.sst"]


def test_nothing_is_no_file(tmp_path: Path) -> None:
    assert write(tmp_path, [[], []]) == []
    assert not list(tmp_path.iterdir())


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    pairs = random_rows(500)
    once, again = (write(tmp_path / place, [pairs])[0].path.read_bytes() for place in ("a", "b"))
    other = write(tmp_path / "c", [pairs], name="elsewhere")[0].path.read_bytes()
    assert once == again
    assert len(once) == len(other)
    assert once != other, "blocks of two files would be one in a cache"


def test_both_families_open_a_database_of_new_files(libraries: dict[str, FlinksRocksdb], tmp_path: Path) -> None:
    states = {"first": random_rows(2000), "empty": [], "second": random_rows(10)}
    written = {
        state: write(tmp_path / state, [pairs], name=state, table_bytes=40_000) for state, pairs in states.items()
    }
    manifest = manifest_of(
        {
            state: [NewTable(table.size, table.smallest, table.largest) for table in tables]
            for state, tables in written.items()
        },
        1_700_000_000,
    )
    for line, library in libraries.items():
        path = tmp_path / f"database-{line}"
        path.mkdir()
        for family in manifest.column_families[1:]:
            for file, table in zip(family.files, written[family.name], strict=True):
                (path / file.name).write_bytes(table.path.read_bytes())
        (path / "MANIFEST-000004").write_bytes(write_manifest(manifest, ""))
        (path / CURRENT).write_bytes(write_current("MANIFEST-000004"))
        assert checked_manifest(listed(path), read_file, list(states)) == manifest
        part = Part(path, KeyGroupRange(0, 127), tuple(states), {state: dict(pairs) for state, pairs in states.items()})
        check_our_reading(part, 128, tmp_path)
        check(library, part)
        go_on(library, part, 128, random.Random(1))


def test_files_that_overlap_make_no_database() -> None:
    tables = [NewTable(10, b"\1", b"\3"), NewTable(10, b"\3", b"\4")]
    with pytest.raises(IntegrityError, match="keys in common") as caught:
        manifest_of({"state": tables}, 1)
    assert caught.value.state == "state"


@pytest.mark.parametrize("table_bytes", [1, 1 << 26])
@pytest.mark.parametrize("batches", [[[b"\1", b"\2", b"\2"]], [[b"\1", b"\2"], [b"\2"]]])
def test_a_key_that_is_there_twice(batches: list[list[bytes]], table_bytes: int, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="there twice") as caught:
        write(tmp_path, [[(key, b"value") for key in batch] for batch in batches], table_bytes=table_bytes)
    assert (caught.value.path, caught.value.state, caught.value.found) == ("s3://bucket/file", "state", "02")


@pytest.mark.parametrize("table_bytes", [1, 1 << 26])
@pytest.mark.parametrize("batches", [[[b"\1", b"\3", b"\2"]], [[b"\1", b"\3"], [b"\2"]]])
def test_a_row_out_of_order(batches: list[list[bytes]], table_bytes: int, tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="out of order") as caught:
        write(tmp_path, [[(key, b"value") for key in batch] for batch in batches], table_bytes=table_bytes)
    assert (caught.value.expected, caught.value.found) == ("a key behind 03", "02")


def test_what_was_begun_is_removed_when_it_fails(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError):
        write(tmp_path, [[(b"\1", b""), (b"\1", b"")]])
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with (
        pytest.raises(StoreError, match="cannot write an SST file") as caught,
        TableWriter(tmp_path / "gone", "place", created=1, path="", state="state") as writer,
    ):
        list(writer.write(rows([(b"\1", b"")]), np.arange(1)))
    assert "No such file" in (caught.value.found or "")


def test_a_full_disk(tmp_path: Path) -> None:
    """As far as a process may write: RocksDB says so, and the process lives."""
    script = f"""
import resource, sys
from pathlib import Path
from rescale.errors import StoreError
from rocksdb.engine.test_table_writer import random_rows, write
pairs = random_rows(20_000)
write(Path({str(tmp_path)!r}, "warm"), [pairs[:1]])
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    write(Path({str(tmp_path)!r}, "full"), [pairs])
except StoreError as error:
    print(error)
"""
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": tests, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "RocksDB cannot write an SST file" in done.stdout
    assert "File too large" in done.stdout
    assert "SPARK_LOCAL_DIRS" in done.stdout
    assert not list((tmp_path / "full").iterdir())


def test_rows_that_do_not_fit_in_memory(tmp_path: Path) -> None:
    pairs = random_rows(5000)
    shuffled = random.Random(2).sample(pairs, len(pairs))
    runs = SortedRuns(tmp_path, 128, path="s3://bucket/file", state="state")
    for i in range(0, len(shuffled), 700):
        runs.add(rows(shuffled[i : i + 700]))
    found = [
        (batch.key(i), batch.data[batch.value_begins[i] : batch.value_ends[i]].tobytes())
        for batch in runs.merged(RowReader(128))
        for i in range(len(batch.key_begins))
    ]
    assert found == pairs


def test_a_key_that_is_there_twice_in_two_runs(tmp_path: Path) -> None:
    runs = SortedRuns(tmp_path, 128, path="s3://bucket/file", state="state")
    for number in range(2):
        runs.add(rows([(bytes([number]), b"one"), (b"\7", b"twice")]))
    with pytest.raises(SnapshotError, match="there twice") as caught:
        list(runs.merged(RowReader(128)))
    assert (caught.value.expected, caught.value.found) == ("4 keys", "3 different ones")
    assert (caught.value.path, caught.value.state) == ("s3://bucket/file", "state")
