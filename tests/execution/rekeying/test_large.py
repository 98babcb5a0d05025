"""Large state in files and in S3: parts and staged ranges give the same bytes, and no staged range stays."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from big_savepoint import write_savepoint
from rescale.execution.rekeying import write_ranges
from rescale.execution.steps import reshuffle_keyed_state
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.key_groups import key_group_of_hash
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.snapshot.places import StreamPlace
from rescale.snapshot.reading.opening import open_snapshot
from rescale.storage import store as stores
from rescale.storage.locations import join
from rescale.storage.store import open_store
from support import written
from support.canonical import Record
from support.composite import keyed
from support.faults import Faults, FaultyStore
from support.java_hash_codes import long_code
from support.java_values import HASHABLE_LEAVES
from support.pipeline import claimed_plan, execute, execute_without_spark, plan_rescale
from support.rekeyed import assert_rekeyed
from support.s3 import S3Server, put_files
from support.slow import slow
from support.snapshot_bytes import LONG, VOID_NAMESPACE, keyed_header

MIB = 1 << 20
PART_SIZE = 5 * MIB
"""S3 takes no part below 5 MiB, except the last."""

LONG_KEY = HASHABLE_LEAVES["Long"]


def write_skewed_savepoint(directory: Path) -> str:
    """Write a map with 9 MiB of entries under one key, and a few entries under each of 300 others."""
    rng = random.Random(7)
    groups: dict[int, list[Record]] = {}
    for number, entries in [(0, 900), *((number, 3) for number in range(1, 301))]:
        key = LONG_KEY.write(number) + b"\0"
        groups.setdefault(key_group_of_hash(long_code(number), 128), []).extend(
            Record(0, key + entry.to_bytes(2, "big"), b"\0" + rng.randbytes(10_000 if number == 0 else 2000))
            for entry in range(entries)
        )
    header = keyed_header(keyed("entries", VOID_NAMESPACE, "MAP"), key=LONG)
    return written.write_savepoint(directory, header, groups, 4, 128)


@pytest.fixture(scope="module", params=[slow("even"), "skewed"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a savepoint of 11 or 12 MiB in four files."""
    directory = tmp_path_factory.mktemp("large") / "savepoint"
    if request.param == "skewed":
        return write_skewed_savepoint(directory)
    write_savepoint(directory, 12 * MIB, value_size=10_000)
    return str(directory)


@pytest.fixture
def bucket(s3: S3Server) -> str:
    bucket = s3.new_bucket("large")
    return f"s3://{bucket}"


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.planning.planner.PART_SIZE", PART_SIZE)


@pytest.fixture
def call_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Faults:
    """Return the log of all calls to stores that this process makes from now on."""
    log = Faults(str(tmp_path / "calls"))
    for factory_name, make in (("_local", stores._local), ("_s3", stores._s3)):
        monkeypatch.setattr(stores, factory_name, lambda make=make: FaultyStore(make(), log))
    return log


def stream_contents(target: str) -> list[bytes]:
    """Return the content of the keyed files in the order of their subtasks."""
    store, result = open_store(target), open_snapshot(target)
    return [store.read_all(result.files[s.extent.file][0], 1 << 30)[0] for o in result.operators for s in o.keyed]


@pytest.mark.slow
def test_s3_gets_the_same_bytes_in_parts_and_staged_ranges(
    source: str, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call_log: Faults
) -> None:
    local_plan = plan_rescale(source, str(tmp_path / "target"), ["1"], max_parallelism=["1000"])
    execute_without_spark(local_plan, cores=1)
    assert_rekeyed(source, local_plan.target)
    source_in_s3 = put_files(Path(source), join(bucket, "source"))
    call_counts = []
    for range_size in (write_ranges.RANGE_SIZE, 3 * MIB, 400_000):
        monkeypatch.setattr(write_ranges, "RANGE_SIZE", range_size)
        plan = plan_rescale(source_in_s3, join(bucket, f"target-{range_size}"), ["1"], max_parallelism=["1000"])
        Path(call_log.log).write_text("")
        execute_without_spark(plan, cores=1)
        verbs = Counter(line.split()[0] for line in call_log.calls() if "-keyed-" in line)
        call_counts.append((verbs["put"], verbs["put_part"]))
        assert stream_contents(plan.target) == stream_contents(local_plan.target)
        assert open_store(bucket).list(places_of(plan).staging) == []
    (whole_staged, whole_parts), (some_staged, _), (many_staged, many_parts) = call_counts
    assert whole_staged < some_staged < many_staged
    assert whole_parts >= 2
    assert many_parts >= 2


@pytest.mark.slow
def test_spark_leaves_no_staged_ranges_in_s3(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_ranges, "RANGE_SIZE", MIB)
    source = write_skewed_savepoint(tmp_path / "savepoint")
    plan = plan_rescale(
        put_files(Path(source), join(bucket, "source")), join(bucket, "target"), ["2"], max_parallelism=["1000"]
    )
    execute(plan)
    assert_rekeyed(source, plan.target)
    assert open_store(bucket).list(places_of(plan).staging) == []


@pytest.mark.parametrize("max_parallelism", ["1000", "64"])
def test_every_byte_of_the_source_is_read_once(
    source: str, max_parallelism: str, tmp_path: Path, call_log: Faults
) -> None:
    plan = claimed_plan(source, str(tmp_path / "target"), ["3"], max_parallelism=[max_parallelism])
    Path(call_log.log).write_text("")
    reshuffle_keyed_state(plan, InProcessTasks(3))
    bytes_by_uri = {plan.files[source.file].uri: key_group_bytes(source) for source in stream_places(plan)}
    unread_by_uri = dict(bytes_by_uri)
    for uri, start, length in logged_reads(call_log):
        if start < bytes_by_uri[uri].start:
            assert start + length <= bytes_by_uri[uri].start, "read of a header and more"
        else:
            assert start == unread_by_uri[uri].start, "reads are not contiguous"
            unread_by_uri[uri] = range(start + length, bytes_by_uri[uri].stop)
    assert not any(map(len, unread_by_uri.values()))


def logged_reads(call_log: Faults) -> Iterator[tuple[str, int, int]]:
    for line in call_log.calls():
        if line.startswith("read "):
            _, uri, start, length = line.split()
            yield uri, int(start), int(length)


def stream_places(plan: Plan) -> list[StreamPlace[Any]]:
    rekeyings = [operator.rekeying for operator in plan.operators if operator.rekeying is not None]
    places = [source.place for rekeying in rekeyings for source in rekeying.sources]
    return [place for place in places if isinstance(place, StreamPlace)]


def key_group_bytes(source: StreamPlace[Any]) -> range:
    """Return the byte range of the key groups in the file."""
    groups = [group for group in source.groups if group is not None]
    return range(groups[0][0], sum(groups[-1]))
