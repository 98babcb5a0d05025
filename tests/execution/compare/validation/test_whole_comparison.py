"""A source and a result of a few bytes, compared as a whole: what is counted, and the error of each fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rescale.execution.compare.validation.check_units import Checks
from rescale.execution.compare.validation.compare import Tally
from rescale.execution.compare.validation.coverage import FilePair
from rescale.execution.compare.validation.directories import DirectoryFiles
from rescale.execution.compare.validation.store_checksums import StoreChecksums
from rescale.execution.compare.validation.validation import (
    _checksum_proof,
    _directory_proof,
    compare_snapshots,
    validate_result,
)
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.timers.heap_timers import TimerService
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.plan.proof import Proof
from rescale.runstate.certificate import CertifiedChecksums, CertifiedDirectories, CertifiedOperator
from rescale.snapshot.keyed_state import Database, KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.checksums import CRCS, Checksum
from rescale.storage.files.local_store import LocalStore
from rescale.storage.store import Pin, open_store
from rescale.text.errors import IntegrityError, StoreError
from support.snapshot_bytes import LONG, VOID_NAMESPACE, parsed
from support.synthetic import element_stream, operator, own_stream, snapshot

SPLIT, UNION, BROADCAST = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION, DistributionMode.BROADCAST
MAX_PARALLELISM = 8
CRC64NVME = CRCS["CRC64NVME"]


def keyed_and_files(parallelism: int, first_file_number: int = 1) -> tuple[Operator, dict[int, bytes]]:
    """Return an operator and the bytes of its files by number. Every key group has ten bytes of its own."""
    own_streams = (own_stream(i, parallelism, MAX_PARALLELISM, Framing.CANONICAL) for i in range(parallelism))
    streams = tuple(keyed_in_file(stream, first_file_number + i) for i, stream in enumerate(own_streams))
    data = {
        stream.extent.file: b"".join(b"group %04d" % group for group, _ in stream.present_groups) for stream in streams
    }
    return operator("keyed", parallelism, MAX_PARALLELISM, keyed=streams), data


def keyed_in_file(stream: KeyedStream, file_number: int) -> KeyedStream:
    groups = tuple(extent and extent._replace(file=file_number) for extent in stream.groups)
    return replace(stream, extent=stream.extent._replace(file=file_number), groups=groups)


def elements_in_file(stream: ElementStream, file_number: int) -> ElementStream:
    def extent_in_file(extent: Extent) -> Extent:
        return extent._replace(file=file_number)

    states = (replace(state, elements=tuple(map(extent_in_file, state.elements))) for state in stream.states)
    return replace(stream, extent=extent_in_file(stream.extent), states=tuple(states))


def elements_and_files(parallelism: int) -> tuple[Operator, dict[int, bytes]]:
    """Return an operator with key groups in files from number 40, and with operator state of all modes from 50."""
    states = {"s": (SPLIT, 6 // parallelism), "u": (UNION, 6 // parallelism), "b": (BROADCAST, 1)}
    streams = tuple(elements_in_file(element_stream(i, states), 50 + i) for i in range(parallelism))
    (keyed_operator, data), begin = keyed_and_files(parallelism, 40), 0
    for stream in streams:
        element_indices = range(begin, begin + 6 // parallelism)
        begin = element_indices.stop
        data[stream.extent.file] = b"".join(
            b"%s element%d" % (name, i) for name in (b"s", b"u") for i in element_indices
        )
        data[stream.extent.file] += b"the copies"
    return operator("elements", parallelism, MAX_PARALLELISM, elements=streams, keyed=keyed_operator.keyed), data


@dataclass
class SnapshotPair:
    """A source and a result that may be spoilt."""

    folder: Path
    source: Snapshot
    result: Snapshot

    def path(self, file_number: int, side: str = "result") -> Path:
        return self.folder / side / str(file_number)

    def flip(self, file_number: int, position: int, side: str = "result") -> None:
        data = bytearray(self.path(file_number, side).read_bytes())
        data[position] ^= 1
        self.path(file_number, side).write_bytes(data)

    def compare(self, proof: Proof = Proof.RECORDS, tasks: InProcessTasks | None = None) -> list[CertifiedOperator]:
        return validate_result(compare_snapshots(self.source, self.result, {}, proof), tasks or InProcessTasks())


def side(folder: Path, parallelism: int) -> Snapshot:
    folder.mkdir()
    operators, contents = [operator("nothing", parallelism)], dict[int, bytes]()
    for operator_of_files, data in (keyed_and_files(parallelism), elements_and_files(parallelism)):
        operators.append(operator_of_files)
        contents |= data
    for file_number, data in contents.items():
        (folder / str(file_number)).write_bytes(data)
    names = [
        str(folder / str(file_number)) if file_number in contents else str(folder / "none") for file_number in range(60)
    ]
    files = [(str(folder / "_metadata"), Pin(9))]
    files += [(name, open_store(name).stat(name) or Pin(0)) for name in names[1:]]
    return replace(snapshot(*operators), directory=str(folder), files=tuple(files))


@pytest.fixture
def pair(tmp_path: Path) -> SnapshotPair:
    return SnapshotPair(tmp_path, side(tmp_path / "source", 2), side(tmp_path / "result", 3))


def test_key_groups_elements_and_copies_are_counted(pair: SnapshotPair) -> None:
    nothing, groups, elements = pair.compare()
    assert [tally.label for tally in (nothing, groups, elements)] == ["nothing", "keyed", "elements"]
    assert (nothing.key_groups, nothing.elements, nothing.broadcast_copies, nothing.bytes) == (0, 0, 0, 0)
    assert nothing.digest == f"{0:032x}"
    assert (groups.key_groups, groups.elements, groups.broadcast_copies, groups.bytes) == (8, 0, 0, 80)
    assert (elements.key_groups, elements.elements, elements.broadcast_copies, elements.bytes) == (8, 12, 3, 230)
    for tally in (nothing, groups, elements):
        assert (tally.parallelism, tally.max_parallelism) == (3, MAX_PARALLELISM if tally is not nothing else 128)
        assert (tally.records, tally.directories, tally.checksums) == (None, None, None)
    assert len({nothing.digest, groups.digest, elements.digest}) == 3


def test_digest_depends_on_content_and_not_on_places(pair: SnapshotPair, tmp_path: Path) -> None:
    same_places = SnapshotPair(tmp_path, pair.source, side(tmp_path / "same", 2))
    assert same_places.compare()[1].digest == pair.compare()[1].digest


@pytest.mark.parametrize("file_number", [1, 2, 3])
def test_changed_byte_of_key_group_is_found(file_number: int, pair: SnapshotPair) -> None:
    pair.flip(file_number, 7)
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(IntegrityError, match="differs between the result and the source") as caught:
            pair.compare(proof)
        assert caught.value.operator == "keyed"


@pytest.mark.parametrize(
    ("position", "state", "message"),
    [(3, "s", "lost, doubled"), (23, "u", "lost, doubled"), (43, "b", "a copy of a broadcast")],
)
@pytest.mark.parametrize("file_number", [50, 52])
def test_changed_byte_of_element_is_found(
    file_number: int, position: int, state: str, message: str, pair: SnapshotPair
) -> None:
    pair.flip(file_number, position)
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(IntegrityError, match=message) as caught:
            pair.compare(proof)
        assert (caught.value.operator, caught.value.state) == ("elements", state)


@pytest.mark.parametrize(("position", "state"), [(3, "s"), (33, "u")])
def test_changed_element_of_the_source_is_found(position: int, state: str, pair: SnapshotPair) -> None:
    """The source is changed before it is pinned, as if it had been moved wrongly."""
    pair.flip(50, position, "source")
    uri = str(pair.path(50, "source"))
    pin = open_store(uri).stat(uri)
    assert pin is not None
    pair.source = replace(
        pair.source,
        files=tuple((other_uri, pin if other_uri == uri else old_pin) for other_uri, old_pin in pair.source.files),
    )
    with pytest.raises(IntegrityError, match="lost, doubled") as caught:
        pair.compare()
    assert caught.value.state == state


@pytest.mark.parametrize("side_name", ["source", "result"])
def test_elements_that_do_not_read_the_same_twice_raise_store_error(
    side_name: str, pair: SnapshotPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks, first_reads = SnapshotFiles.chunks, [True]

    def flip_first_read(files: SnapshotFiles, extent: Extent, *more: int) -> Iterator[bytes]:
        data = b"".join(chunks(files, extent, *more))
        if files.uri(extent).endswith(f"/{side_name}/50") and first_reads:
            first_reads.clear()
            data = bytes([data[0] ^ 1]) + data[1:]
        yield data

    monkeypatch.setattr(SnapshotFiles, "chunks", flip_first_read)
    with pytest.raises(StoreError, match=f"two reads of the {side_name} differ"):
        pair.compare()
    assert pair.compare()


def test_result_may_be_rewritten_with_the_same_bytes_but_the_source_may_not(pair: SnapshotPair) -> None:
    """Another attempt of the run may write the same bytes again; a source that is written has changed."""
    data = pair.path(1).read_bytes()
    pair.path(1).unlink()
    pair.path(1).write_bytes(data)
    assert pair.compare()
    pair.path(1, "source").write_bytes(data[::-1])
    with pytest.raises(Exception, match="changed"):
        pair.compare()


def test_digest_is_of_the_result_alone(pair: SnapshotPair, tmp_path: Path) -> None:
    other = SnapshotPair(tmp_path, side(tmp_path / "other", 3), pair.result)
    assert [tally.digest for tally in other.compare()] == [tally.digest for tally in pair.compare()]


@pytest.mark.parametrize("seed", range(5))
def test_order_in_which_tasks_end_is_ignored(seed: int, pair: SnapshotPair) -> None:
    """The second read of a unit of work is compared with its first read, in whatever order tasks end."""
    pair.flip(52, 3)
    with pytest.raises(IntegrityError, match="lost, doubled"):
        pair.compare(tasks=InProcessTasks(2, Random(seed)))


@dataclass(frozen=True)
class RecordingTasks(InProcessTasks):
    """A loop of tasks that records whether threads suffice."""

    sufficed: list[bool] = field(default_factory=list)

    def run(self, work: Any, units: Any, progress: Any, *, threads_suffice: bool = False) -> list[Any]:
        self.sufficed.append(threads_suffice)
        return super().run(work, units, progress, threads_suffice=threads_suffice)


@pytest.mark.parametrize("in_s3", [(), ("source",), ("result",), ("source", "result")])
def test_threads_suffice_for_bytes_of_local_files(
    in_s3: Sequence[str], pair: SnapshotPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{validate_result.__module__}.is_s3", lambda uri: uri.endswith(tuple(in_s3) or ("none",)))
    for suffices, expected in ((True, not in_s3), (False, False)):
        monkeypatch.setattr(Checks, "threads_suffice", property(lambda _, suffices=suffices: suffices))
        tasks = RecordingTasks()
        pair.compare(tasks=tasks)
        assert tasks.sufficed == [expected]


def test_checksum_proofs_are_made_by_operator() -> None:
    tallies = [Tally(i, Slot.KEYED, True, 0, "", None, 1, 5 + i, 0) for i in (1, 1, 2)]
    names = [f"sum {i}" for i in range(9)]
    checksums = StoreChecksums(Checks([], []), tallies, {1: set(names), 2: {"CRC32C"}, 3: set()})
    assert _checksum_proof(checksums, 1) == CertifiedChecksums(tuple(names), 12)
    assert _checksum_proof(checksums, 2) == CertifiedChecksums(("CRC32C",), 7)
    assert [_checksum_proof(checksums, 3), _checksum_proof(checksums, 4), _checksum_proof(None, 1)] == [None] * 3


def test_directory_proof_counts_directories_and_files() -> None:
    databases = tuple(Database(i, KeyGroupRange(i, i), Extent(0, 0, 0), b"", None, ()) for i in range(5))
    copy = FilePair(0, "1.sst", Extent(0, 0, 0), Extent(0, 0, 0))
    directory_files = [DirectoryFiles(0, 2, (copy,), (copy,) * 7, 4), DirectoryFiles(1, 1, (copy, copy), (), 5)]
    proof = _directory_proof(operator("op", 5, databases=databases), directory_files)
    assert proof == CertifiedDirectories(
        by_files=2, by_records=3, files_referred_to=3, files_copied=3, deleted_ranges=9
    )


def test_files_with_stored_checksums_are_not_read_in_a_proof_by_files(
    pair: SnapshotPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested_uris: list[str] = []

    def stored_checksums(_: LocalStore, uri: str, __: Pin) -> list[Checksum]:
        requested_uris.append(uri)
        return [Checksum(CRC64NVME.name, CRC64NVME.compute(Path(uri).read_bytes()))]

    operators_by_records = pair.compare()
    monkeypatch.setattr(LocalStore, "checksums", stored_checksums)
    assert pair.compare() == operators_by_records
    assert not requested_uris, "no proof by files was requested"
    nothing, groups, elements = pair.compare(Proof.FILES)
    assert groups.checksums == CertifiedChecksums((CRC64NVME.name,), 80)
    assert (groups.key_groups, groups.bytes) == (8, 80)
    assert groups.digest != operators_by_records[1].digest
    assert elements.checksums == groups.checksums
    assert (nothing, elements.elements, elements.bytes) == (operators_by_records[0], 12, 230)
    pair.flip(2, 7)
    with pytest.raises(IntegrityError, match="differs between the result and the source"):
        pair.compare(Proof.FILES)


FAULTS: Mapping[str, tuple[Callable[[Snapshot], Snapshot], str]] = {
    "metadata": (lambda of: replace(of, metadata=replace(of.metadata, checkpoint_id=2)), "checkpoint id"),
    "a reference": (
        lambda of: replace(of, files=(*of.files, ("/elsewhere/x", Pin(1)))),
        "does not belong to the source",
    ),
    "a surplus file": (lambda of: replace(of, files=of.files[:52]), "do not belong to the result"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("proof", [Proof.RECORDS, Proof.FILES])
def test_metadata_references_and_surplus_files_are_compared_before_state(
    fault: str, proof: Proof, pair: SnapshotPair
) -> None:
    change, message = FAULTS[fault]
    with pytest.raises(IntegrityError, match=message):
        compare_snapshots(pair.source, change(pair.result), {}, proof)


def test_streams_are_checked_where_records_move(pair: SnapshotPair) -> None:
    def with_other_max_parallelism(operator: Operator) -> Operator:
        return replace(operator, entry=replace(operator.entry, max_parallelism=16)) if operator.keyed else operator

    result = replace(pair.result, operators=tuple(map(with_other_max_parallelism, pair.result.operators)))
    with pytest.raises(IntegrityError, match="key groups of subtask 0"):
        compare_snapshots(pair.source, result, {})


def test_streams_of_timers_are_checked_where_records_move(pair: SnapshotPair) -> None:
    def timer_operator(parallelism: int, max_parallelism: int) -> Operator:
        service = TimerService("timers", parsed(LONG), parsed(VOID_NAMESPACE))
        own_streams = (own_stream(i, parallelism, max_parallelism, Framing.RAW) for i in range(parallelism))
        raw = tuple(replace(own, timer_services=(service,)) for own in own_streams)
        return operator("timers", parallelism, max_parallelism, raw_keyed=raw)

    source = replace(pair.source, operators=(timer_operator(2, MAX_PARALLELISM),))
    new = timer_operator(3, 2 * MAX_PARALLELISM)
    result = replace(pair.result, operators=(replace(new, raw_keyed=new.raw_keyed[:2]),))
    with pytest.raises(IntegrityError, match="subtasks with raw timers"):
        compare_snapshots(source, result, {})
