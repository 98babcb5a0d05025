"""A source and a result of a few bytes, compared as a whole: what is counted, and what each fault ends with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from rescale.errors import IntegrityError, StoreError
from rescale.execution.loop import Loop
from rescale.execution.validation.validation import compared, validate_result
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.values.proof import Proof
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementStream, Operator, Snapshot
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.checksums import CRCS, Checksum
from rescale.storage.local import LocalStore
from rescale.storage.store import Pin, open_store
from rescale.target.certificate import CertifiedChecksums, CertifiedOperator
from support.synthetic import element_stream, operator, own_stream, snapshot

SPLIT, UNION, BROADCAST = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.UNION, DistributionMode.BROADCAST
MAXIMUM = 8
NVME = CRCS["CRC64NVME"]


def keyed(parallelism: int) -> tuple[Operator, dict[int, bytes]]:
    """With the bytes of its files, by number; a key group has its own ten bytes wherever it lies."""
    streams = tuple(own_stream(i, parallelism, MAXIMUM, Framing.CANONICAL) for i in range(parallelism))
    data = {
        stream.extent.file: b"".join(b"group %04d" % group for group, _ in stream.present_groups) for stream in streams
    }
    return operator("keyed", parallelism, MAXIMUM, keyed=streams), data


def in_file(stream: ElementStream, number: int) -> ElementStream:
    def moved(extent: Extent) -> Extent:
        return extent._replace(file=number)

    states = (replace(state, elements=tuple(map(moved, state.elements))) for state in stream.states)
    return replace(stream, extent=moved(stream.extent), states=tuple(states))


def dealt(parallelism: int) -> tuple[Operator, dict[int, bytes]]:
    """Six elements of two states each, and a copy for every subtask, in files from number 50 on."""
    states = {"s": (SPLIT, 6 // parallelism), "u": (UNION, 6 // parallelism), "b": (BROADCAST, 1)}
    streams = tuple(in_file(element_stream(i, states), 50 + i) for i in range(parallelism))
    data, begin = {}, 0
    for stream in streams:
        own = range(begin, begin + 6 // parallelism)
        begin = own.stop
        data[stream.extent.file] = b"".join(b"%s element%d" % (name, i) for name in (b"s", b"u") for i in own)
        data[stream.extent.file] += b"the copies"
    return operator("elements", parallelism, MAXIMUM, elements=streams), data


@dataclass
class Pair:
    """Both sides; the result may be spoilt."""

    folder: Path
    source: Snapshot
    result: Snapshot

    def path(self, number: int, side: str = "result") -> Path:
        return self.folder / side / str(number)

    def flip(self, number: int, at: int, side: str = "result") -> None:
        data = bytearray(self.path(number, side).read_bytes())
        data[at] ^= 1
        self.path(number, side).write_bytes(data)

    def compare(self, proof: Proof = Proof.RECORDS) -> list[CertifiedOperator]:
        return validate_result(compared(self.source, self.result, {}, proof), Loop())


def side(folder: Path, parallelism: int) -> Snapshot:
    folder.mkdir()
    operators, contents = [operator("nothing", parallelism)], dict[int, bytes]()
    for made, data in (keyed(parallelism), dealt(parallelism)):
        operators.append(made)
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


def test_what_is_there_is_counted(pair: Pair) -> None:
    nothing, groups, elements = pair.compare()
    assert [one.label for one in (nothing, groups, elements)] == ["nothing", "keyed", "elements"]
    assert (nothing.key_groups, nothing.elements, nothing.broadcast_copies, nothing.bytes) == (0, 0, 0, 0)
    assert nothing.digest == f"{0:032x}"
    assert (groups.key_groups, groups.elements, groups.broadcast_copies, groups.bytes) == (8, 0, 0, 80)
    assert (elements.key_groups, elements.elements, elements.broadcast_copies, elements.bytes) == (0, 12, 3, 150)
    for one in (nothing, groups, elements):
        assert (one.parallelism, one.max_parallelism) == (3, MAXIMUM if one is not nothing else 128)
        assert (one.records, one.directories, one.checksums) == (None, None, None)
    assert len({nothing.digest, groups.digest, elements.digest}) == 3


def test_a_digest_says_what_and_not_where(pair: Pair, tmp_path: Path) -> None:
    same = Pair(tmp_path, pair.source, side(tmp_path / "same", 2))
    assert same.compare()[1].digest == pair.compare()[1].digest


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_byte_of_a_key_group_that_is_another_is_found(number: int, pair: Pair) -> None:
    pair.flip(number, 7)
    for proof in Proof:
        with pytest.raises(IntegrityError, match="is not the source's") as caught:
            pair.compare(proof)
        assert caught.value.operator == "keyed"


@pytest.mark.parametrize(
    ("at", "state", "said"), [(3, "s", "lost, doubled"), (23, "u", "lost, doubled"), (43, "b", "a copy of a broadcast")]
)
@pytest.mark.parametrize("number", [50, 52])
def test_a_byte_of_an_element_that_is_another_is_found(number: int, at: int, state: str, said: str, pair: Pair) -> None:
    pair.flip(number, at)
    for proof in Proof:
        with pytest.raises(IntegrityError, match=said) as caught:
            pair.compare(proof)
        assert (caught.value.operator, caught.value.state) == ("elements", state)


@pytest.mark.parametrize(("at", "state"), [(3, "s"), (33, "u")])
def test_the_source_is_compared_too(at: int, state: str, pair: Pair) -> None:
    """Before its version is seen: as if it had been moved otherwise."""
    pair.flip(50, at, "source")
    uri = str(pair.path(50, "source"))
    pin = open_store(uri).stat(uri)
    assert pin is not None
    pair.source = replace(pair.source, files=tuple((one, pin if one == uri else was) for one, was in pair.source.files))
    with pytest.raises(IntegrityError, match="lost, doubled") as caught:
        pair.compare()
    assert caught.value.state == state


@pytest.mark.parametrize("which", ["source", "result"])
def test_elements_that_were_misread_once_are_told_of_their_side(
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
    with pytest.raises(StoreError, match=f"the {which} did not read the same twice"):
        pair.compare()
    assert pair.compare()


def test_the_content_of_a_result_counts_and_not_its_version(pair: Pair) -> None:
    """A twin of the run may be writing the same bytes again; who writes to a source has it changed."""
    data = pair.path(1).read_bytes()
    pair.path(1).unlink()
    pair.path(1).write_bytes(data)
    assert pair.compare()
    pair.path(1, "source").write_bytes(data[::-1])
    with pytest.raises(Exception, match="changed"):
        pair.compare()


def test_what_the_store_has_sums_of_is_not_read(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """By files; and the sums are not asked for else."""

    def sums(_: LocalStore, uri: str, __: Pin) -> list[Checksum]:
        return [Checksum(NVME.name, NVME.of(Path(uri).read_bytes()))]

    whole = pair.compare()
    monkeypatch.setattr(LocalStore, "checksums", sums)
    assert pair.compare() == whole
    nothing, groups, elements = pair.compare(Proof.FILES)
    assert groups.checksums == CertifiedChecksums((NVME.name,), 80)
    assert (groups.key_groups, groups.bytes) == (8, 80)
    assert groups.digest != whole[1].digest
    assert (nothing, elements) == (whole[0], whole[2])
    pair.flip(2, 7)
    with pytest.raises(IntegrityError, match="is not the source's"):
        pair.compare(Proof.FILES)


CHANGES: Mapping[str, tuple[Callable[[Snapshot], Snapshot], str]] = {
    "metadata": (lambda of: replace(of, metadata=replace(of.metadata, checkpoint_id=2)), "checkpoint id"),
    "a reference": (lambda of: replace(of, files=(*of.files, ("/elsewhere/x", Pin(1)))), "none of the source's"),
    "a surplus file": (lambda of: replace(of, files=of.files[:52]), "belong to no state"),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("proof", Proof)
def test_all_that_is_no_state_is_compared_first(what: str, proof: Proof, pair: Pair) -> None:
    change, said = CHANGES[what]
    with pytest.raises(IntegrityError, match=said):
        compared(pair.source, change(pair.result), {}, proof)


def test_where_records_move_their_streams_are_looked_at(pair: Pair) -> None:
    def changed(of: Operator) -> Operator:
        return replace(of, entry=replace(of.entry, max_parallelism=16)) if of.keyed else of

    result = replace(pair.result, operators=tuple(map(changed, pair.result.operators)))
    with pytest.raises(IntegrityError, match="key groups of subtask 0"):
        compared(pair.source, result, {})
