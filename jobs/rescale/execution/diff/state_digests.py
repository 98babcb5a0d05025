"""What a task of a comparison does: digests some of the state of one side.

Elements and whole key groups get a digest each; of records, which can be many more, there is one for each state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.errors import RescaleError, SnapshotError
from rescale.execution.diff.found import BothFiles, Side
from rescale.execution.sources.byte_digests import digest
from rescale.execution.sources.chunks import runs
from rescale.execution.sources.record_sources import RecordSource, SourceReader
from rescale.execution.sources.spans import span
from rescale.flink.advice import WRONG_OFFSETS
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.keyed.blocks.record_digest import RecordDigester, StateDigest
from rescale.flink.keyed.blocks.records import framed_size
from rescale.snapshot.locate import Extent


class ExtentUnit(NamedTuple):
    """Elements of a state, or key groups, that lie end to end; `deflated` elements are compressed each by itself."""

    number: int
    side: Side
    label: str
    state: str | None
    extents: tuple[Extent, ...]
    deflated: bool

    @property
    def size(self) -> int:
        return sum(extent.length for extent in self.extents)


class RecordUnit(NamedTuple):
    """Records that a task reads at once."""

    number: int
    side: Side
    label: str
    source: RecordSource

    @property
    def size(self) -> int:
        return self.source.size


class ExtentDigests(NamedTuple):
    unit: int
    digests: tuple[int, ...]


class RecordDigests(NamedTuple):
    """By the name of the state."""

    unit: int
    states: dict[str, StateDigest]


@dataclass(frozen=True)
class Digester:
    """Digests units of two snapshots, given by their files; travels to the tasks as it is."""

    files: BothFiles

    def __call__(self, unit: ExtentUnit | RecordUnit) -> ExtentDigests | RecordDigests:
        try:
            return self._extents(unit) if isinstance(unit, ExtentUnit) else self._records(unit)
        except RescaleError as error:
            raise error.located(operator=unit.label) from None

    def _extents(self, unit: ExtentUnit) -> ExtentDigests:
        whole = span(unit.extents)
        files = self.files[unit.side]
        contents = runs(files.chunks(whole), [extent.length for extent in unit.extents])
        try:
            if unit.deflated:
                digests = [digest(decompressed(content, identifier=False)) for content in contents]
            else:
                digests = [digest(content) for content in contents]
        except SnapshotError as error:
            advice = WRONG_OFFSETS if unit.deflated and error.path is None else None
            raise error.located(path=files.uri(whole), state=unit.state, advice=advice) from None
        return ExtentDigests(unit.number, tuple(digests))

    def _records(self, unit: RecordUnit) -> RecordDigests:
        names, is_map = unit.source.states
        digester = RecordDigester(is_map)
        batches = SourceReader(self.files[unit.side]).batches(unit.source)
        accounted = 0
        for records in batches:
            digester.add(records, records.groups)
            accounted += framed_size(records, unit.source.max_parallelism)
        batches.check_all_read(accounted)
        return RecordDigests(unit.number, dict(zip(names, digester.digests(), strict=True)))
