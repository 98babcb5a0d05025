"""A proof by files of copies in a store compares the store's checksums instead of every byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from big_savepoint import write_savepoint
from rescale.execution.steps import validate_coverage, validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.runstate.publication import publish
from rescale.storage import store as stores
from rescale.storage.locations import join
from rescale.storage.store import open_store
from rescale.text.errors import IntegrityError
from support import snapshots
from support.faults import Faults, FaultyStore
from support.pipeline import move, plan_rescale
from support.s3 import S3Server, put_files, unprotected_store
from support.slow import slow


@pytest.fixture(params=["s3", slow("uses_strict_s3")])
def bucket_uri(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    server: S3Server = request.getfixturevalue(request.param)
    bucket = server.new_bucket("sums")
    return f"s3://{bucket}"


@pytest.fixture
def has_crcs(bucket_uri: str) -> bool:
    """Return whether the server stores CRC64NVME checksums, which prove key groups that are cut into other files."""
    store = unprotected_store(bucket_uri)
    store.put(join(bucket_uri, "probe"), b"x")
    pin = store.stat(join(bucket_uri, "probe"))
    assert pin is not None
    algorithms = [checksum.algorithm for checksum in store.checksums(join(bucket_uri, "probe"), pin)]
    store.delete([join(bucket_uri, "probe")])
    return "CRC64NVME" in algorithms


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[], Any]], Counter[str]]:
    """Return a function that counts how many bytes of each file are read while a piece of work runs."""
    own_store, log = stores._s3(), tmp_path / "log"
    monkeypatch.setattr(stores, "_s3", lambda: FaultyStore(own_store, Faults(str(log))))

    def count(compare: Callable[[], Any]) -> Counter[str]:
        log.write_text("")
        compare()
        bytes_by_verb: Counter[str] = Counter()
        for verb, *rest in (line.split() for line in log.read_text().splitlines()):
            if verb == "read":
                bytes_by_verb[rest[0]] += int(rest[2])
        return bytes_by_verb

    return count


def moved_plan(bucket_uri: str, folder: Path) -> Plan:
    """Rescale four files to three, whose key groups are cut into other files."""
    write_savepoint(folder / "source", 200_000, value_size=900)
    plan = plan_rescale(put_files(folder / "source", join(bucket_uri, "source")), join(bucket_uri, "target"), ["3"])
    move(plan, InProcessTasks())
    return plan


def test_key_groups_cut_into_other_files_are_proven_by_checksums_of_the_store(
    bucket_uri: str, has_crcs: bool, bytes_read: Callable[[Callable[[], Any]], Counter[str]], tmp_path: Path
) -> None:
    plan = moved_plan(bucket_uri, tmp_path)
    size_by_uri = bytes_read(lambda: validate_coverage(plan, InProcessTasks(), Proof.FILES))
    state_bytes = sum(size for uri, size in size_by_uri.items() if "keyed-" in uri)
    certificate = publish(plan) and validate_published(plan.source, plan.target, InProcessTasks(), Proof.FILES)
    (operator,) = certificate.operators
    (operator_by_records,) = validate_published(plan.source, plan.target, InProcessTasks()).operators
    assert (operator.key_groups, operator.bytes) == (operator_by_records.key_groups, operator_by_records.bytes)
    if has_crcs:
        assert state_bytes < plan.bytes_moved / 20, "headers only"
        assert list(operator.checksums.algorithms) == ["CRC64NVME"]
        assert operator.checksums.bytes == operator.bytes
        assert (certificate.proof, "CRC64NVME" in certificate.does_not_prove) == ("files", True)
    else:
        assert state_bytes > 2 * operator.bytes
        assert (operator.checksums, certificate.proof, certificate.does_not_prove) == (None, "records", None)


def test_every_byte_is_read_by_default(bucket_uri: str, tmp_path: Path) -> None:
    plan = moved_plan(bucket_uri, tmp_path)
    (operator,) = validate_coverage(plan, InProcessTasks()).operators
    assert operator.checksums is None


def test_changed_byte_is_found_and_its_file_named(bucket_uri: str, tmp_path: Path) -> None:
    plan = moved_plan(bucket_uri, tmp_path)
    store = open_store(bucket_uri)
    changed_entry = [entry for entry in store.list(plan.target) if "-keyed-" in entry.uri][1]
    data = bytearray(store.read_all(changed_entry.uri, changed_entry.size)[0])
    data[-200] ^= 1
    store.put(changed_entry.uri, bytes(data))
    with pytest.raises(IntegrityError, match="differs between the result and the source") as caught:
        validate_coverage(plan, InProcessTasks(), Proof.FILES)
    assert caught.value.path == changed_entry.uri


def test_bytes_exchanged_between_files_are_found(bucket_uri: str, tmp_path: Path) -> None:
    plan = moved_plan(bucket_uri, tmp_path)
    store = open_store(bucket_uri)
    first, other, _ = (entry for entry in store.list(plan.target) if "-keyed-" in entry.uri)
    contents = [bytearray(store.read_all(entry.uri, entry.size)[0]) for entry in (first, other)]
    contents[0][-300:], contents[1][-300:] = contents[1][-300:], contents[0][-300:]
    store.put(first.uri, bytes(contents[0]))
    store.put(other.uri, bytes(contents[1]))
    with pytest.raises(IntegrityError, match="differs between the result and the source"):
        validate_coverage(plan, InProcessTasks(), Proof.FILES)


def test_copied_rocksdb_files_are_proven_by_checksums_of_the_store(
    bucket_uri: str, bytes_read: Callable[[Callable[[], Any]], Counter[str]]
) -> None:
    """Each of the servers stores a checksum of whole files, but not the same one."""
    source = put_files(Path(snapshots.directory("2-rocksdb-native")), join(bucket_uri, "source"))
    plan = plan_rescale(source, join(bucket_uri, "target"))
    move(plan, InProcessTasks())
    size_by_uri = bytes_read(lambda: validate_coverage(plan, InProcessTasks(), Proof.FILES))
    assert not [uri for uri in size_by_uri if uri.endswith(".sst")]
    certificate = publish(plan) and validate_published(plan.source, plan.target, InProcessTasks(), Proof.FILES)
    operator_checksums = [operator.checksums for operator in certificate.operators if operator.checksums is not None]
    assert operator_checksums
    assert {name for checksums in operator_checksums for name in checksums.algorithms} <= {"CRC64NVME", "ETag"}


def test_checksums_are_those_of_the_pinned_version(bucket_uri: str) -> None:
    store = unprotected_store(bucket_uri)
    uri = join(bucket_uri, "file")
    store.put(uri, b"before")
    pin = store.stat(uri)
    assert pin is not None
    assert store.checksums(uri, pin)
    store.put(uri, b"after!")
    assert not store.checksums(uri, pin)
    assert not store.checksums(join(bucket_uri, "none"), pin)
