"""What a task of the validation does: reads the same state in source and result and compares its digests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from rescale.errors import IntegrityError, RescaleError, SnapshotError
from rescale.execution.sources.byte_digests import MODULUS, digest, digest_pair, run_digests
from rescale.execution.sources.chunks import runs
from rescale.execution.sources.spans import span
from rescale.execution.validation.coverage import FilePair, GroupPair
from rescale.execution.validation.headers import MADE_ANEW
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.keyed.blocks.canonical import translated
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.second_look import RESULT, SOURCE, changed_sides, looked_at_again, misread


class GroupCheck(NamedTuple):
    """Key groups of one operator whose bytes lie end to end on both sides."""

    operator: int
    label: str
    slot: Slot
    pairs: tuple[GroupPair, ...]


class FileCheck(NamedTuple):
    """One file of one RocksDB directory."""

    operator: int
    label: str
    pair: FilePair


class ElementCheck(NamedTuple):
    """Some elements of one state in one stream of one side, end to end."""

    operator: int
    label: str
    slot: Slot
    in_result: bool
    subtask: int
    state: str
    mode: DistributionMode
    elements: tuple[Extent, ...]


class Tally(NamedTuple):
    """What a check saw: how many key groups or elements, their bytes, the sum of their digests."""

    operator: int
    slot: Slot
    in_result: bool
    subtask: int
    state: str
    mode: DistributionMode | None
    items: int
    size: int
    digest: int


@dataclass(frozen=True)
class Comparer:
    """Compares units of one source and one result, given by their files; travels to the tasks as it is."""

    source: SnapshotFiles
    result: SnapshotFiles

    def __call__(self, check: GroupCheck | ElementCheck | FileCheck) -> Tally:
        try:
            match check:
                case GroupCheck():
                    return looked_at_again(lambda: self._groups(check))
                case FileCheck():
                    return looked_at_again(lambda: self._file(check))
                case ElementCheck():
                    return looked_at_again(lambda: self._elements(check), RESULT if check.in_result else SOURCE)
        except RescaleError as error:
            raise error.located(operator=check.label) from None

    def _groups(self, check: GroupCheck) -> Tally:
        total = 0
        for pair, digests in zip(check.pairs, self._group_digests(check.pairs), strict=True):
            expected, found = digests
            if expected != found:
                different = IntegrityError(
                    f"key group {pair.key_group} of the result is not the source's",
                    path=self.result.uri(pair.result),
                    offset=pair.result.start,
                    expected=f"digest {expected:032x}",
                    found=f"digest {found:032x}",
                    advice=f"{MADE_ANEW}; if it happens again, report it with both snapshots",
                )
                _refuse(different, digests, next(self._group_digests((pair,))))
            total += digest([found.to_bytes(16, "little")], seed=pair.key_group)
        size = sum(pair.result.length for pair in check.pairs)
        return Tally(check.operator, check.slot, True, 0, "", None, len(check.pairs), size, total % MODULUS)

    def _file(self, check: FileCheck) -> Tally:
        expected, found = digests = self._file_digests(check.pair)
        if expected != found:
            different = IntegrityError(
                f"the file {check.pair.name} of a RocksDB directory is not the source's",
                path=self.result.uri(check.pair.result),
                expected=f"the bytes of {self.source.uri(check.pair.source)}, with digest {expected:032x}",
                found=f"digest {found:032x}",
                advice=MADE_ANEW,
            )
            _refuse(different, digests, self._file_digests(check.pair))
        return Tally(check.operator, Slot.KEYED, True, 0, "", None, 0, check.pair.result.length, found)

    def _file_digests(self, pair: FilePair) -> tuple[int, int]:
        return digest_pair(self.source.chunks(pair.source), self._result_chunks(pair.result))

    def _group_digests(self, pairs: tuple[GroupPair, ...]) -> Iterator[tuple[int, int]]:
        """(expected, found) of every key group."""
        first = pairs[0]
        if first.source is None:
            yield digest_pair([first.filler], self._result_chunks(first.result))
        elif first.table is not None:
            source = self.source.chunks(first.source)
            if first.compressed:
                source = decompressed(source)
            found = self._result_chunks(first.result, compressed=first.compressed)
            yield digest_pair(translated(source, first.table), found)
        else:
            sources = [pair.source for pair in pairs if pair.source is not None]
            results = [pair.result for pair in pairs]
            yield from map(
                digest_pair,
                runs(self.source.chunks(span(sources)), [extent.length for extent in sources]),
                runs(self._result_chunks(span(results)), [extent.length for extent in results]),
            )

    def _elements(self, check: ElementCheck) -> Tally:
        whole = span(check.elements)
        chunks = self._result_chunks(whole) if check.in_result else self.source.chunks(whole)
        total = sum(run_digests(chunks, [extent.length for extent in check.elements])) % MODULUS
        return Tally(
            check.operator,
            check.slot,
            check.in_result,
            check.subtask,
            check.state,
            check.mode,
            len(check.elements),
            whole.length,
            total,
        )

    def _result_chunks(self, extent: Extent, *, compressed: bool = False) -> Iterator[bytes]:
        """What was written must be there: a file of the result that cannot be read is the result's fault."""
        chunks = self.result.chunks(extent)
        try:
            yield from decompressed(chunks) if compressed else chunks
        except SnapshotError as error:
            raise IntegrityError(
                f"the result cannot be read back: {error.what}",
                path=error.path or self.result.uri(extent),
                offset=extent.start,
                found=error.found,
            ) from None


def _refuse(different: IntegrityError, first: tuple[int, int], again: tuple[int, int]) -> NoReturn:
    """Of digests of both sides that are not the same: at both looks, or at the first one only."""
    if changed := changed_sides(first, again):
        raise misread(changed, different)
    raise different
