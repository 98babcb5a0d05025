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
def home(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("rescale.planning.streams.inline.INLINE_LIMIT", 0)
    server: S3Server = request.getfixturevalue(request.param)
    bucket = server.new_bucket("sums")
    return f"s3://{bucket}"


@pytest.fixture
def has_crcs(home: str) -> bool:
    """Return whether the server stores CRC64NVME checksums, which prove key groups that are cut into other files."""
    store = unprotected_store(home)
    store.put(join(home, "probe"), b"x")
    pin = store.stat(join(home, "probe"))
    assert pin is not None
    algorithms = [checksum.algorithm for checksum in store.checksums(join(home, "probe"), pin)]
    store.delete([join(home, "probe")])
    return "CRC64NVME" in algorithms


@pytest.fixture
def bytes_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Callable[[], Any]], Counter[str]]:
    """Return a function that counts how many bytes of each file are read while a piece of work runs."""
    own, log = stores._s3(), tmp_path / "log"
    monkeypatch.setattr(stores, "_s3", lambda: FaultyStore(own, Faults(str(log))))

    def count(compare: Callable[[], Any]) -> Counter[str]:
        log.write_text("")
        compare()
        bytes_by_verb: Counter[str] = Counter()
        for verb, *rest in (line.split() for line in log.read_text().splitlines()):
            if verb == "read":
                bytes_by_verb[rest[0]] += int(rest[2])
        return bytes_by_verb

    return count


def relocated(home: str, folder: Path) -> Plan:
    """Rescale four files to three, whose key groups are cut into other files."""
    write_savepoint(folder / "source", 200_000, value_size=900)
    plan = plan_rescale(put_files(folder / "source", join(home, "source")), join(home, "target"), ["3"])
    move(plan, InProcessTasks())
    return plan


def test_key_groups_cut_into_other_files_are_proven_by_checksums_of_the_store(
    home: str, has_crcs: bool, bytes_read: Callable[[Callable[[], Any]], Counter[str]], tmp_path: Path
) -> None:
    plan = relocated(home, tmp_path)
    read = bytes_read(lambda: validate_coverage(plan, InProcessTasks(), Proof.FILES))
    of_state = sum(size for uri, size in read.items() if "keyed-" in uri)
    certificate = publish(plan) and validate_published(plan.source, plan.target, InProcessTasks(), Proof.FILES)
    (operator,) = certificate.operators
    (deeper,) = validate_published(plan.source, plan.target, InProcessTasks()).operators
    assert (operator.key_groups, operator.bytes) == (deeper.key_groups, deeper.bytes)
    if has_crcs:
        assert of_state < plan.bytes_moved / 20, "headers only"
        assert list(operator.checksums.algorithms) == ["CRC64NVME"]
        assert operator.checksums.bytes == operator.bytes
        assert (certificate.proof, "CRC64NVME" in certificate.does_not_prove) == ("files", True)
    else:
        assert of_state > 2 * operator.bytes
        assert (operator.checksums, certificate.proof, certificate.does_not_prove) == (None, "records", None)


def test_every_byte_is_read_by_default(home: str, tmp_path: Path) -> None:
    plan = relocated(home, tmp_path)
    (operator,) = validate_coverage(plan, InProcessTasks()).operators
    assert operator.checksums is None


def test_changed_byte_is_found_and_its_file_named(home: str, tmp_path: Path) -> None:
    plan = relocated(home, tmp_path)
    store = open_store(home)
    changed = [entry for entry in store.list(plan.target) if "-keyed-" in entry.uri][1]
    data = bytearray(store.read_all(changed.uri, changed.size)[0])
    data[-200] ^= 1
    store.put(changed.uri, bytes(data))
    with pytest.raises(IntegrityError, match="differs between the result and the source") as caught:
        validate_coverage(plan, InProcessTasks(), Proof.FILES)
    assert caught.value.path == changed.uri


def test_bytes_exchanged_between_files_are_found(home: str, tmp_path: Path) -> None:
    plan = relocated(home, tmp_path)
    store = open_store(home)
    first, other, _ = (entry for entry in store.list(plan.target) if "-keyed-" in entry.uri)
    ends = [bytearray(store.read_all(entry.uri, entry.size)[0]) for entry in (first, other)]
    ends[0][-300:], ends[1][-300:] = ends[1][-300:], ends[0][-300:]
    store.put(first.uri, bytes(ends[0]))
    store.put(other.uri, bytes(ends[1]))
    with pytest.raises(IntegrityError, match="differs between the result and the source"):
        validate_coverage(plan, InProcessTasks(), Proof.FILES)


def test_copied_rocksdb_files_are_proven_by_checksums_of_the_store(
    home: str, bytes_read: Callable[[Callable[[], Any]], Counter[str]]
) -> None:
    """Each of the servers stores a checksum of whole files, but not the same one."""
    source = put_files(Path(snapshots.directory("2-rocksdb-native")), join(home, "source"))
    plan = plan_rescale(source, join(home, "target"))
    move(plan, InProcessTasks())
    read = bytes_read(lambda: validate_coverage(plan, InProcessTasks(), Proof.FILES))
    assert not [uri for uri in read if uri.endswith(".sst")]
    certificate = publish(plan) and validate_published(plan.source, plan.target, InProcessTasks(), Proof.FILES)
    proven = [operator.checksums for operator in certificate.operators if operator.checksums is not None]
    assert proven
    assert {name for checksums in proven for name in checksums.algorithms} <= {"CRC64NVME", "ETag"}


def test_checksums_are_those_of_the_pinned_version(home: str) -> None:
    store = unprotected_store(home)
    uri = join(home, "file")
    store.put(uri, b"before")
    pin = store.stat(uri)
    assert pin is not None
    assert store.checksums(uri, pin)
    store.put(uri, b"after!")
    assert not store.checksums(uri, pin)
    assert not store.checksums(join(home, "none"), pin)
