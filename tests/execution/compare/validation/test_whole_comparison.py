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
MAXIMUM = 8
NVME = CRCS["CRC64NVME"]


def keyed(parallelism: int, first: int = 1) -> tuple[Operator, dict[int, bytes]]:
    """Return an operator and the bytes of its files by number. Every key group has ten bytes of its own."""
    owns = (own_stream(i, parallelism, MAXIMUM, Framing.CANONICAL) for i in range(parallelism))
    streams = tuple(moved(stream, first + i) for i, stream in enumerate(owns))
    data = {
        stream.extent.file: b"".join(b"group %04d" % group for group, _ in stream.present_groups) for stream in streams
    }
    return operator("keyed", parallelism, MAXIMUM, keyed=streams), data


def moved(stream: KeyedStream, number: int) -> KeyedStream:
    groups = tuple(extent and extent._replace(file=number) for extent in stream.groups)
    return replace(stream, extent=stream.extent._replace(file=number), groups=groups)


def in_file(stream: ElementStream, number: int) -> ElementStream:
    def moved(extent: Extent) -> Extent:
        return extent._replace(file=number)

    states = (replace(state, elements=tuple(map(moved, state.elements))) for state in stream.states)
    return replace(stream, extent=moved(stream.extent), states=tuple(states))


def dealt(parallelism: int) -> tuple[Operator, dict[int, bytes]]:
    """Return an operator with key groups in files from number 40, and with operator state of all modes from 50."""
    states = {"s": (SPLIT, 6 // parallelism), "u": (UNION, 6 // parallelism), "b": (BROADCAST, 1)}
    streams = tuple(in_file(element_stream(i, states), 50 + i) for i in range(parallelism))
    (groups, data), begin = keyed(parallelism, 40), 0
    for stream in streams:
        own = range(begin, begin + 6 // parallelism)
        begin = own.stop
        data[stream.extent.file] = b"".join(b"%s element%d" % (name, i) for name in (b"s", b"u") for i in own)
        data[stream.extent.file] += b"the copies"
    return operator("elements", parallelism, MAXIMUM, elements=streams, keyed=groups.keyed), data


@dataclass
class Pair:
    """A source and a result that may be spoilt."""

    folder: Path
    source: Snapshot
    result: Snapshot

    def path(self, number: int, side: str = "result") -> Path:
        return self.folder / side / str(number)

    def flip(self, number: int, at: int, side: str = "result") -> None:
        data = bytearray(self.path(number, side).read_bytes())
        data[at] ^= 1
        self.path(number, side).write_bytes(data)

    def compare(self, proof: Proof = Proof.RECORDS, tasks: InProcessTasks | None = None) -> list[CertifiedOperator]:
        return validate_result(compare_snapshots(self.source, self.result, {}, proof), tasks or InProcessTasks())


def side(folder: Path, parallelism: int) -> Snapshot:
    folder.mkdir()
    operators, contents = [operator("nothing", parallelism)], dict[int, bytes]()
    for keyed_or_dealt, data in (keyed(parallelism), dealt(parallelism)):
        operators.append(keyed_or_dealt)
        contents |= data
    for number, data in contents.items():
        (folder / str(number)).write_bytes(data)
    names = [str(folder / str(number)) if number in contents else str(folder / "none") for number in range(60)]
    files = [(str(folder / "_metadata"), Pin(9))]
    files += [(name, open_store(name).stat(name) or Pin(0)) for name in names[1:]]
    return replace(snapshot(*operators), directory=str(folder), files=tuple(files))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, side(tmp_path / "source", 2), side(tmp_path / "result", 3))


def test_key_groups_elements_and_copies_are_counted(pair: Pair) -> None:
    nothing, groups, elements = pair.compare()
    assert [tally.label for tally in (nothing, groups, elements)] == ["nothing", "keyed", "elements"]
    assert (nothing.key_groups, nothing.elements, nothing.broadcast_copies, nothing.bytes) == (0, 0, 0, 0)
    assert nothing.digest == f"{0:032x}"
    assert (groups.key_groups, groups.elements, groups.broadcast_copies, groups.bytes) == (8, 0, 0, 80)
    assert (elements.key_groups, elements.elements, elements.broadcast_copies, elements.bytes) == (8, 12, 3, 230)
    for tally in (nothing, groups, elements):
        assert (tally.parallelism, tally.max_parallelism) == (3, MAXIMUM if tally is not nothing else 128)
        assert (tally.records, tally.directories, tally.checksums) == (None, None, None)
    assert len({nothing.digest, groups.digest, elements.digest}) == 3


def test_digest_depends_on_content_and_not_on_places(pair: Pair, tmp_path: Path) -> None:
    same = Pair(tmp_path, pair.source, side(tmp_path / "same", 2))
    assert same.compare()[1].digest == pair.compare()[1].digest


@pytest.mark.parametrize("number", [1, 2, 3])
def test_changed_byte_of_key_group_is_found(number: int, pair: Pair) -> None:
    pair.flip(number, 7)
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(IntegrityError, match="differs between the result and the source") as caught:
            pair.compare(proof)
        assert caught.value.operator == "keyed"


@pytest.mark.parametrize(
    ("at", "state", "message"),
    [(3, "s", "lost, doubled"), (23, "u", "lost, doubled"), (43, "b", "a copy of a broadcast")],
)
@pytest.mark.parametrize("number", [50, 52])
def test_changed_byte_of_element_is_found(number: int, at: int, state: str, message: str, pair: Pair) -> None:
    pair.flip(number, at)
    for proof in (Proof.RECORDS, Proof.FILES):
        with pytest.raises(IntegrityError, match=message) as caught:
            pair.compare(proof)
        assert (caught.value.operator, caught.value.state) == ("elements", state)


@pytest.mark.parametrize(("at", "state"), [(3, "s"), (33, "u")])
def test_changed_element_of_the_source_is_found(at: int, state: str, pair: Pair) -> None:
    """The source is changed before it is pinned, as if it had been moved wrongly."""
    pair.flip(50, at, "source")
    uri = str(pair.path(50, "source"))
    pin = open_store(uri).stat(uri)
    assert pin is not None
    pair.source = replace(
        pair.source, files=tuple((known, pin if known == uri else was) for known, was in pair.source.files)
    )
    with pytest.raises(IntegrityError, match="lost, doubled") as caught:
        pair.compare()
    assert caught.value.state == state


@pytest.mark.parametrize("which", ["source", "result"])
def test_elements_that_do_not_read_the_same_twice_raise_store_error(
    which: str, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks, first = SnapshotFiles.chunks, [True]

    def once(files: SnapshotFiles, extent: Extent, *more: int) -> Iterator[bytes]:
        read = b"".join(chunks(files, extent, *more))
        if files.uri(extent).endswith(f"/{which}/50") and first:
            first.clear()
            read = bytes([read[0] ^ 1]) + read[1:]
        yield read

    monkeypatch.setattr(SnapshotFiles, "chunks", once)
    with pytest.raises(StoreError, match=f"two reads of the {which} differ"):
        pair.compare()
    assert pair.compare()


def test_result_may_be_rewritten_with_the_same_bytes_but_the_source_may_not(pair: Pair) -> None:
    """Another attempt of the run may write the same bytes again; a source that is written has changed."""
    data = pair.path(1).read_bytes()
    pair.path(1).unlink()
    pair.path(1).write_bytes(data)
    assert pair.compare()
    pair.path(1, "source").write_bytes(data[::-1])
    with pytest.raises(Exception, match="changed"):
        pair.compare()


def test_digest_is_of_the_result_alone(pair: Pair, tmp_path: Path) -> None:
    other = Pair(tmp_path, side(tmp_path / "other", 3), pair.result)
    assert [tally.digest for tally in other.compare()] == [tally.digest for tally in pair.compare()]


@pytest.mark.parametrize("seed", range(5))
def test_order_in_which_tasks_end_is_ignored(seed: int, pair: Pair) -> None:
    """The second read of a unit of work is compared with its first read, in whatever order tasks end."""
    pair.flip(52, 3)
    with pytest.raises(IntegrityError, match="lost, doubled"):
        pair.compare(tasks=InProcessTasks(2, Random(seed)))


@dataclass(frozen=True)
class RecordingTasks(InProcessTasks):
    """A loop of tasks that records whether threads suffice."""

    said: list[bool] = field(default_factory=list)

    def run(self, work: Any, units: Any, progress: Any, *, threads_suffice: bool = False) -> list[Any]:
        self.said.append(threads_suffice)
        return super().run(work, units, progress, threads_suffice=threads_suffice)


@pytest.mark.parametrize("in_s3", [(), ("source",), ("result",), ("source", "result")])
def test_threads_suffice_for_bytes_of_local_files(
    in_s3: Sequence[str], pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{validate_result.__module__}.is_s3", lambda uri: uri.endswith(tuple(in_s3) or ("none",)))
    for little, expected in ((True, not in_s3), (False, False)):
        monkeypatch.setattr(Checks, "threads_suffice", property(lambda _, little=little: little))
        tasks = RecordingTasks()
        pair.compare(tasks=tasks)
        assert tasks.said == [expected]


def test_checksum_proofs_are_made_by_operator() -> None:
    tallies = [Tally(i, Slot.KEYED, True, 0, "", None, 1, 5 + i, 0) for i in (1, 1, 2)]
    names = [f"sum {i}" for i in range(9)]
    sums = StoreChecksums(Checks([], []), tallies, {1: set(names), 2: {"CRC32C"}, 3: set()})
    assert _checksum_proof(sums, 1) == CertifiedChecksums(tuple(names), 12)
    assert _checksum_proof(sums, 2) == CertifiedChecksums(("CRC32C",), 7)
    assert [_checksum_proof(sums, 3), _checksum_proof(sums, 4), _checksum_proof(None, 1)] == [None] * 3


def test_directory_proof_counts_directories_and_files() -> None:
    databases = tuple(Database(i, KeyGroupRange(i, i), Extent(0, 0, 0), b"", None, ()) for i in range(5))
    copy = FilePair(0, "1.sst", Extent(0, 0, 0), Extent(0, 0, 0))
    whole = [DirectoryFiles(0, 2, (copy,), (copy,) * 7, 4), DirectoryFiles(1, 1, (copy, copy), (), 5)]
    proof = _directory_proof(operator("op", 5, databases=databases), whole)
    assert proof == CertifiedDirectories(
        by_files=2, by_records=3, files_referred_to=3, files_copied=3, deleted_ranges=9
    )


def test_files_with_stored_checksums_are_not_read_in_a_proof_by_files(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested_uris: list[str] = []

    def sums(_: LocalStore, uri: str, __: Pin) -> list[Checksum]:
        requested_uris.append(uri)
        return [Checksum(NVME.name, NVME.compute(Path(uri).read_bytes()))]

    whole = pair.compare()
    monkeypatch.setattr(LocalStore, "checksums", sums)
    assert pair.compare() == whole
    assert not requested_uris, "no proof by files was requested"
    nothing, groups, elements = pair.compare(Proof.FILES)
    assert groups.checksums == CertifiedChecksums((NVME.name,), 80)
    assert (groups.key_groups, groups.bytes) == (8, 80)
    assert groups.digest != whole[1].digest
    assert elements.checksums == groups.checksums
    assert (nothing, elements.elements, elements.bytes) == (whole[0], 12, 230)
    pair.flip(2, 7)
    with pytest.raises(IntegrityError, match="differs between the result and the source"):
        pair.compare(Proof.FILES)


CHANGES: Mapping[str, tuple[Callable[[Snapshot], Snapshot], str]] = {
    "metadata": (lambda of: replace(of, metadata=replace(of.metadata, checkpoint_id=2)), "checkpoint id"),
    "a reference": (
        lambda of: replace(of, files=(*of.files, ("/elsewhere/x", Pin(1)))),
        "does not belong to the source",
    ),
    "a surplus file": (lambda of: replace(of, files=of.files[:52]), "do not belong to the result"),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("proof", [Proof.RECORDS, Proof.FILES])
def test_metadata_references_and_surplus_files_are_compared_before_state(what: str, proof: Proof, pair: Pair) -> None:
    change, message = CHANGES[what]
    with pytest.raises(IntegrityError, match=message):
        compare_snapshots(pair.source, change(pair.result), {}, proof)


def test_streams_are_checked_where_records_move(pair: Pair) -> None:
    def changed(operator: Operator) -> Operator:
        return replace(operator, entry=replace(operator.entry, max_parallelism=16)) if operator.keyed else operator

    result = replace(pair.result, operators=tuple(map(changed, pair.result.operators)))
    with pytest.raises(IntegrityError, match="key groups of subtask 0"):
        compare_snapshots(pair.source, result, {})


def test_streams_of_timers_are_checked_where_records_move(pair: Pair) -> None:
    def timers(parallelism: int, maximum: int) -> Operator:
        service = TimerService("timers", parsed(LONG), parsed(VOID_NAMESPACE))
        owns = (own_stream(i, parallelism, maximum, Framing.RAW) for i in range(parallelism))
        raw = tuple(replace(own, timer_services=(service,)) for own in owns)
        return operator("timers", parallelism, maximum, raw_keyed=raw)

    source = replace(pair.source, operators=(timers(2, MAXIMUM),))
    new = timers(3, 2 * MAXIMUM)
    result = replace(pair.result, operators=(replace(new, raw_keyed=new.raw_keyed[:2]),))
    with pytest.raises(IntegrityError, match="subtasks with raw timers"):
        compare_snapshots(source, result, {})
