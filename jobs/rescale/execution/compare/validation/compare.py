"""Work of a validation's task: reads key groups and files in source and result, and compares their digests.

Elements of operator state may lie in any subtask of the result. So a task only digests them, on one side at a time, and
the driver compares the sums of both sides (`validation`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from rescale.execution.compare.validation.coverage import FilePair, GroupPair
from rescale.execution.compare.validation.headers import RERUN_ADVICE
from rescale.execution.sources.byte_digests import MODULUS, digest, digest_pair, run_digests
from rescale.execution.sources.chunks import runs
from rescale.execution.sources.spans import span
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.keyed.blocks.canonical import translated_key_group
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.slot import Slot
from rescale.rocksdb.sst.block_checksums import BlockChecksums
from rescale.snapshot.databases.table_sizes import open_extent
from rescale.snapshot.locate import Extent
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.storage.rereads import RESULT, SOURCE, changed_sides, misread_error, read_again_on_failure
from rescale.text.errors import IntegrityError, SnapshotError, UnsupportedError, located


class GroupCheck(NamedTuple):
    """Check of key groups of one operator whose bytes lie end to end, in the source and in the result."""

    operator_index: int
    label: str
    slot: Slot
    pairs: tuple[GroupPair, ...]


class FileCheck(NamedTuple):
    """Check of a file of a RocksDB directory."""

    operator_index: int
    label: str
    pair: FilePair


class ElementCheck(NamedTuple):
    """Check of elements of one state that lie end to end in one stream, of the source or the result."""

    operator_index: int
    label: str
    slot: Slot
    in_result: bool
    subtask: int
    state: str
    mode: DistributionMode
    elements: tuple[Extent, ...]


class Tally(NamedTuple):
    """Outcome of a check: the number of key groups or elements, their bytes, and the sum of their digests.

    `in_result` is True if they are in the result, and False if they are in the source. For an SST file,
    `are_blocks_checked` is True if the checksums of its blocks are right, and False if its format is unknown.
    """

    operator_index: int
    slot: Slot
    in_result: bool
    subtask: int
    state: str
    mode: DistributionMode | None
    item_count: int
    size: int
    digest_sum: int
    are_blocks_checked: bool | None = None


@dataclass(frozen=True)
class Comparer:
    """Performs checks of one source and one result, given by their files; pickled into the tasks."""

    source: SnapshotFiles
    result: SnapshotFiles

    def __call__(self, check: GroupCheck | ElementCheck | FileCheck) -> Tally:
        with located(operator=check.label):
            match check:
                case GroupCheck():
                    return read_again_on_failure(lambda: self._compare_groups(check))
                case FileCheck():
                    return read_again_on_failure(lambda: self._compare_file(check))
                case ElementCheck():
                    return read_again_on_failure(
                        lambda: self._digest_elements(check), RESULT if check.in_result else SOURCE
                    )

    def _compare_groups(self, check: GroupCheck) -> Tally:
        digest_sum = 0
        for pair, digests in zip(check.pairs, self._group_digests(check.pairs), strict=True):
            source_digest, result_digest = digests
            if source_digest != result_digest:
                difference = IntegrityError(
                    f"key group {pair.key_group} differs between the result and the source",
                    path=self.result.uri(pair.result),
                    offset=pair.result.start,
                    expected=f"digest {source_digest:032x}",
                    found=f"digest {result_digest:032x}",
                    advice=f"{RERUN_ADVICE}; if it happens again, report it with both snapshots",
                )
                _raise_difference(difference, digests, next(self._group_digests((pair,))))
            digest_sum += digest([result_digest.to_bytes(16, "little")], seed=pair.key_group)
        size = sum(pair.result.length for pair in check.pairs)
        return Tally(check.operator_index, check.slot, True, 0, "", None, len(check.pairs), size, digest_sum % MODULUS)

    def _compare_file(self, check: FileCheck) -> Tally:
        block_checksums = self._block_checksums(check.pair)
        source_digest, result_digest = digests = self._file_digests(check.pair, block_checksums)
        if source_digest != result_digest:
            difference = IntegrityError(
                f"the file {check.pair.name} of a RocksDB directory differs between the result and the source",
                path=self.result.uri(check.pair.result),
                expected=f"the bytes of {self.source.uri(check.pair.source)}, with digest {source_digest:032x}",
                found=f"digest {result_digest:032x}",
                advice=RERUN_ADVICE,
            )
            _raise_difference(difference, digests, self._file_digests(check.pair))
        are_blocks_checked = block_checksums is not None if check.pair.is_table else None
        return Tally(
            check.operator_index,
            Slot.KEYED,
            True,
            0,
            "",
            None,
            0,
            check.pair.result.length,
            result_digest,
            are_blocks_checked,
        )

    def _file_digests(self, pair: FilePair, block_checksums: BlockChecksums | None = None) -> tuple[int, int]:
        chunks = self.source.chunks(pair.source)
        if block_checksums is not None:
            chunks = block_checksums.checked(chunks)
        return digest_pair(chunks, self._result_chunks(pair.result))

    def _block_checksums(self, pair: FilePair) -> BlockChecksums | None:
        """Return the checker of an SST file's block checksums; None for other files, and for unknown formats."""
        if not pair.is_table:
            return None
        try:
            return BlockChecksums(open_extent(pair.source, self.source))
        except UnsupportedError:
            return None

    def _group_digests(self, pairs: tuple[GroupPair, ...]) -> Iterator[tuple[int, int]]:
        """Yield (digest in the source, digest in the result) of every key group."""
        first_pair = pairs[0]
        if first_pair.source is None:
            yield digest_pair([first_pair.filler], self._result_chunks(first_pair.result))
        elif first_pair.id_map is not None:
            source = self.source.chunks(first_pair.source)
            if first_pair.compressed:
                source = decompressed(source)
            result = self._result_chunks(first_pair.result, is_compressed=first_pair.compressed)
            yield digest_pair(translated_key_group(source, first_pair.id_map), result)
        else:
            source_extents = [pair.source for pair in pairs if pair.source is not None]
            result_extents = [pair.result for pair in pairs]
            yield from map(
                digest_pair,
                runs(self.source.chunks(span(source_extents)), [extent.length for extent in source_extents]),
                runs(self._result_chunks(span(result_extents)), [extent.length for extent in result_extents]),
            )

    def _digest_elements(self, check: ElementCheck) -> Tally:
        whole_span = span(check.elements)
        chunks = self._result_chunks(whole_span) if check.in_result else self.source.chunks(whole_span)
        digest_sum = sum(run_digests(chunks, [extent.length for extent in check.elements])) % MODULUS
        return Tally(
            check.operator_index,
            check.slot,
            check.in_result,
            check.subtask,
            check.state,
            check.mode,
            len(check.elements),
            whole_span.length,
            digest_sum,
        )

    def _result_chunks(self, extent: Extent, *, is_compressed: bool = False) -> Iterator[bytes]:
        """Yield the bytes of an extent of the result. Raises `IntegrityError` if they cannot be read."""
        chunks = self.result.chunks(extent)
        try:
            yield from decompressed(chunks) if is_compressed else chunks
        except SnapshotError as error:
            raise IntegrityError(
                f"the result cannot be read back: {error.what}",
                path=error.path or self.result.uri(extent),
                offset=extent.start,
                found=error.found,
            ) from None


def _raise_difference(
    difference: IntegrityError, first_digests: tuple[int, int], second_digests: tuple[int, int]
) -> NoReturn:
    """Raise the error `difference`, or a `StoreError` if a second read of one side gives another digest.

    `first_digests` and `second_digests` have the digests of source and result in the two reads.
    """
    if unstable_sides := changed_sides(first_digests, second_digests):
        raise misread_error(unstable_sides, difference)
    raise difference
