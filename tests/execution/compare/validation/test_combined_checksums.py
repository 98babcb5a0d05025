"""Proofs by checksums of whole files that the store knows, and the parts that must still be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.execution.compare.validation.check_units import Check, Checks
from rescale.execution.compare.validation.compare import ElementCheck, FileCheck, GroupCheck, Tally
from rescale.execution.compare.validation.coverage import FilePair, GroupPair
from rescale.execution.compare.validation.store_checksums import StoreChecksums, prove_by_checksums
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Snapshot
from rescale.storage.checksums import CRCS, Checksum
from rescale.storage.contract import Pin
from rescale.storage.files.local_store import LocalStore
from rescale.storage.store import open_store
from support.synthetic import snapshot

CRC64NVME, CRC32C = CRCS.values()
Files = Mapping[str, bytes]


class TwoSides:
    """Two sides with given files; the store knows the checksums of the algorithms in `known_algorithms`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known_algorithms = {name: [CRC64NVME.name, CRC32C.name] for name in ("source", "result")}
        self.asked_files: list[str] = []
        self._folder = folder
        monkeypatch.setattr(LocalStore, "checksums", lambda _, uri, pin: self._checksums(uri, pin))

    def _checksums(self, uri: str, pin: Pin) -> list[Checksum]:
        assert open_store(uri).stat(uri) == pin, "asked for another version of the file"
        name = "/".join(Path(uri).parts[-2:])
        self.asked_files.append(name)  # `append` is safe though several threads ask
        data = Path(uri).read_bytes()
        checksums = {CRC64NVME.name: CRC64NVME.compute(data), CRC32C.name: CRC32C.compute(data), "ETag": data[0]}
        algorithms = self.known_algorithms.get(name, self.known_algorithms[Path(uri).parent.name])
        return [Checksum(name, checksums[name]) for name in algorithms]

    def side(self, name: str, files: Sequence[bytes]) -> Snapshot:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        uris = [str(folder / str(number)) for number in range(len(files))]
        for uri, data in zip(uris, files, strict=True):
            Path(uri).write_bytes(data)
        pins = [open_store(uri).stat(uri) for uri in uris]
        return replace(snapshot(), directory=str(folder), files=tuple(zip(uris, pins, strict=True)))

    def prove(self, source: Sequence[bytes], result: Sequence[bytes], *checks: Check) -> StoreChecksums:
        """Prove the checks. File 0 is `_metadata`, whose bytes the snapshot holds."""
        listed_checks = Checks([(7, check) for check in checks], [])
        return prove_by_checksums(
            self.side("source", [b"_metadata", *source]), self.side("result", [b"_metadata", *result]), listed_checks
        )


@pytest.fixture
def two_sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoSides:
    return TwoSides(tmp_path, monkeypatch)


def pair(group: int, source: tuple[int, int, int] | None, result: tuple[int, int, int]) -> GroupPair:
    return GroupPair(group, None if source is None else Extent(*source), Extent(*result))


def group_check(*pairs: GroupPair, operator: int = 0, slot: Slot = Slot.KEYED) -> GroupCheck:
    return GroupCheck(operator, "op", slot, pairs)


CUT_ELSEWHERE = (
    group_check(pair(0, (1, 2, 3), (1, 1, 3)), pair(1, (1, 5, 1), (1, 4, 1))),
    group_check(pair(2, (2, 2, 2), (1, 5, 2)), pair(3, (2, 4, 2), (2, 1, 2))),
)
SOURCE, RESULT = (b"SSabcd", b"SSefgh"), (b"Rabcdef", b"Rgh")


def test_key_groups_cut_into_other_files_are_proven_by_combined_checksums(two_sides: TwoSides) -> None:
    proof = two_sides.prove(SOURCE, RESULT, *CUT_ELSEWHERE)
    assert proof.checks.units == []
    (tally,) = proof.tallies
    assert tally == Tally(0, Slot.KEYED, True, 0, "", None, 4, 8, CRC64NVME.compute(b"abcdefgh"))
    assert proof.algorithms_by_operator == {0: {CRC64NVME.name}}
    assert sorted(two_sides.asked_files) == ["result/1", "result/2", "source/1", "source/2"]


def test_order_of_listed_checks_is_ignored(two_sides: TwoSides) -> None:
    assert two_sides.prove(SOURCE, RESULT, *CUT_ELSEWHERE[::-1]).checks.units == []


@pytest.mark.parametrize(
    ("source", "result"),
    [
        (SOURCE, (b"Rabcdef", b"Rgi")),
        (SOURCE, (b"Rabdcef", b"Rgh")),
        ((b"SSabcd", b"SSefgi"), RESULT),
        (SOURCE, (b"Rabcdefx", b"Rgh")),
        (SOURCE, (b"Rabcdef", b"Rghx")),
        ((b"SSabcdx", b"SSefgh"), RESULT),
        ((b"SSabcd", b"SSefghx"), RESULT),
    ],
)
def test_differing_files_are_left_to_be_read(
    source: Sequence[bytes], result: Sequence[bytes], two_sides: TwoSides
) -> None:
    """The files of one side have other bytes, bytes in another order, or bytes that belong to no key group."""
    proof = two_sides.prove(source, result, *CUT_ELSEWHERE)
    assert proof.checks.units == [(7, unit) for unit in CUT_ELSEWHERE]
    assert (proof.tallies, proof.algorithms_by_operator) == ([], {})


@pytest.mark.parametrize(
    ("source", "result", "algorithm"),
    [
        ([CRC64NVME.name, CRC32C.name], [CRC32C.name], CRC32C.name),
        ([CRC32C.name], [CRC64NVME.name, CRC32C.name], CRC32C.name),
        ([CRC64NVME.name], [CRC64NVME.name], CRC64NVME.name),
        ([CRC64NVME.name], [CRC32C.name], None),
        ([], [CRC64NVME.name], None),
        (["ETag"], ["ETag"], None),
    ],
)
def test_checksums_prove_only_if_both_sides_have_the_same_algorithm(
    source: Sequence[str], result: Sequence[str], algorithm: str | None, two_sides: TwoSides
) -> None:
    """An ETag proves nothing about key groups that are cut into other files."""
    two_sides.known_algorithms = {"source": list(source), "result": list(result)}
    proof = two_sides.prove(SOURCE, RESULT, *CUT_ELSEWHERE)
    assert proof.algorithms_by_operator == ({0: {algorithm}} if algorithm else {})
    assert len(proof.checks.units) == (0 if algorithm else 2)


def test_operators_and_slots_are_proven_separately(two_sides: TwoSides) -> None:
    copied = group_check(pair(0, (1, 0, 3), (1, 0, 3)), operator=1)
    differing = group_check(pair(0, (2, 0, 3), (2, 0, 3)), operator=2)
    raw = group_check(pair(0, (3, 0, 3), (3, 0, 3)), operator=2, slot=Slot.RAW_KEYED)
    proof = two_sides.prove([b"abc", b"def", b"ghi"], [b"abc", b"deX", b"ghi"], copied, differing, raw)
    assert proof.checks.units == [(7, differing)]
    assert [(tally.operator_index, tally.slot) for tally in proof.tallies] == [(1, Slot.KEYED), (2, Slot.RAW_KEYED)]
    assert proof.algorithms_by_operator == {1: {CRC64NVME.name}, 2: {CRC64NVME.name}}


@pytest.mark.parametrize(
    "group_pair",
    [
        pair(0, (1, 0, 3), (1, 0, 3))._replace(id_map=(1, 0)),
        pair(0, None, (1, 0, 3))._replace(filler=b"abc"),
        pair(0, (1, 0, 2), (1, 0, 3)),
    ],
)
def test_translated_filled_and_shortened_key_groups_are_left_to_be_read(
    group_pair: GroupPair, two_sides: TwoSides
) -> None:
    proof = two_sides.prove([b"abc"], [b"abc"], group_check(group_pair))
    assert proof.checks.units == [(7, group_check(group_pair))]


def test_inline_state_is_left_to_be_read(two_sides: TwoSides) -> None:
    """The store is never asked for the checksum of `_metadata`, which holds more than this state."""
    inline = group_check(pair(0, (0, 0, 3), (1, 0, 3)))
    assert two_sides.prove([], [b"_me"], inline).checks.units == [(7, inline)]
    assert "source/0" not in two_sides.asked_files


def test_key_group_behind_a_long_header_is_left_to_be_read(
    two_sides: TwoSides, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = group_check(pair(0, (1, 3, 3), (1, 0, 3)))
    monkeypatch.setattr("rescale.execution.compare.validation.store_checksums._LONGEST_HEADER_BYTES", 3)
    assert two_sides.prove([b"SSSabc"], [b"abc"], copied).checks.units == []
    monkeypatch.setattr("rescale.execution.compare.validation.store_checksums._LONGEST_HEADER_BYTES", 2)
    assert two_sides.prove([b"SSSabc"], [b"abc"], copied).checks.units == [(7, copied)]


def file_check(source: tuple[int, int, int], result: tuple[int, int, int]) -> FileCheck:
    return FileCheck(4, "op", FilePair(0, "1.sst", Extent(*source), Extent(*result)))


def test_whole_copied_files_are_proven_by_any_common_checksum(two_sides: TwoSides) -> None:
    """ETags count as such checksums."""
    two_sides.known_algorithms = {"source": ["ETag", CRC32C.name], "result": [CRC32C.name, "ETag"]}
    copied = file_check((1, 0, 3), (1, 0, 3))
    proof = two_sides.prove([b"abc"], [b"abc"], copied)
    assert proof.tallies == [Tally(4, Slot.KEYED, True, 0, "", None, 0, 3, ord("a"))]
    assert (proof.checks.units, proof.algorithms_by_operator) == ([], {4: {"ETag"}})


@pytest.mark.parametrize(
    ("part", "source", "result"),
    [
        (file_check((1, 0, 3), (1, 0, 3)), b"abc", b"abd"),
        (file_check((1, 0, 3), (1, 0, 3)), b"abcd", b"abc"),
        (file_check((1, 0, 3), (1, 0, 3)), b"abc", b"abcd"),
        (file_check((1, 1, 3), (1, 0, 3)), b"abcd", b"abc"),
        (file_check((1, 0, 3), (1, 1, 3)), b"abc", b"abcd"),
        (file_check((1, 0, 3), (1, 0, 4)), b"abc", b"abcd"),
        (file_check((1, 1, 2), (1, 0, 2)), b"abc", b"abc"),
        (file_check((1, 0, 2), (1, 0, 2)), b"abc", b"abc"),
        (file_check((0, 0, 9), (0, 0, 9)), b"abc", b"abc"),
        (file_check((0, 0, 3), (1, 0, 3)), b"abc", b"abc"),
        (file_check((1, 0, 3), (0, 0, 3)), b"abc", b"abc"),
    ],
)
def test_part_of_a_file_is_left_to_be_read(part: FileCheck, source: bytes, result: bytes, two_sides: TwoSides) -> None:
    proof = two_sides.prove([source], [result], part)
    assert (proof.checks.units, proof.tallies) == ([(7, part)], [])


def test_files_of_different_lengths_are_left_to_be_read_though_their_etags_agree(two_sides: TwoSides) -> None:
    two_sides.known_algorithms = {"source": ["ETag"], "result": ["ETag"]}
    longer = file_check((1, 0, 3), (1, 0, 4))
    assert two_sides.prove([b"abc"], [b"abcd"], longer).checks.units == [(7, longer)]


def test_files_with_bytes_beyond_headers_and_key_groups_are_left_to_be_read(two_sides: TwoSides) -> None:
    """This holds even if both sides have the same surplus."""
    same = group_check(pair(0, (1, 0, 3), (1, 0, 3)), pair(1, (2, 0, 3), (2, 0, 3)))
    assert two_sides.prove([b"abc", b"def"], [b"abc", b"def"], same).checks.units == []
    for files in ([b"abcx", b"def"], [b"abc", b"defx"]):
        assert two_sides.prove(files, files, same).checks.units == [(7, same)]


def test_algorithm_must_be_known_for_all_files(two_sides: TwoSides) -> None:
    two_sides.known_algorithms["result/2"] = [CRC32C.name]
    assert two_sides.prove(SOURCE, RESULT, *CUT_ELSEWHERE).algorithms_by_operator == {0: {CRC32C.name}}


def test_elements_are_always_read(two_sides: TwoSides) -> None:
    elements = ElementCheck(0, "op", Slot.OPERATOR, False, 0, "a", DistributionMode.UNION, (Extent(1, 0, 3),))
    copied = file_check((1, 0, 3), (1, 0, 3))
    proof = two_sides.prove([b"abc"], [b"abc"], elements, copied)
    assert proof.checks.units == [(7, elements)]
