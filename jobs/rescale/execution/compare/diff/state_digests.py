"""Work of a comparison's task: digests a unit of state of one side.

Each element and each whole key group gets its own digest. Records, which can be many more, get one digest per state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.execution.compare.diff.differences import BothFiles, Side
from rescale.execution.compare.source_digests import digest_records
from rescale.execution.sources.byte_digests import digest
from rescale.execution.sources.chunks import runs
from rescale.execution.sources.record_sources import RecordSource
from rescale.execution.sources.spans import span
from rescale.flink.encoding.snappy import decompressed
from rescale.flink.keyed.blocks.record_digest import StateDigest
from rescale.snapshot.locate import Extent
from rescale.text.errors import SnapshotError, located


class ExtentUnit(NamedTuple):
    """Elements of a state, or key groups, that lie end to end; each `compressed` element is compressed on its own."""

    unit_index: int
    side: Side
    label: str
    state: str | None
    extents: tuple[Extent, ...]
    compressed: bool

    @property
    def size(self) -> int:
        return sum(extent.length for extent in self.extents)


class RecordUnit(NamedTuple):
    """Records that a task reads at once."""

    unit_index: int
    side: Side
    label: str
    source: RecordSource

    @property
    def size(self) -> int:
        return self.source.size


class ExtentDigests(NamedTuple):
    unit_index: int
    digests: tuple[int, ...]


class RecordDigests(NamedTuple):
    """Digests of a unit's records, by state name."""

    unit_index: int
    digests_by_state: dict[str, StateDigest]


@dataclass(frozen=True)
class Digester:
    """Digests units of two snapshots, given by their files; pickled into the tasks."""

    files: BothFiles

    def __call__(self, unit: ExtentUnit | RecordUnit) -> ExtentDigests | RecordDigests:
        with located(operator=unit.label):
            return self._digest_extents(unit) if isinstance(unit, ExtentUnit) else self._digest_records(unit)

    def _digest_extents(self, unit: ExtentUnit) -> ExtentDigests:
        whole_span = span(unit.extents)
        files = self.files[unit.side]
        extent_chunks = runs(files.chunks(whole_span), [extent.length for extent in unit.extents])
        try:
            if unit.compressed:
                digests = [digest(decompressed(content, has_identifier=False)) for content in extent_chunks]
            else:
                digests = [digest(content) for content in extent_chunks]
        except SnapshotError as error:
            raise error.located(path=files.uri(whole_span), state=unit.state) from None
        return ExtentDigests(unit.unit_index, tuple(digests))

    def _digest_records(self, unit: RecordUnit) -> RecordDigests:
        digests_by_state = digest_records(
            unit.source, self.files[unit.side], lambda records: records.groups
        ).digests_by_state
        return RecordDigests(unit.unit_index, digests_by_state)
