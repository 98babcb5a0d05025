"""Work of a task that writes a planned stream or some of its parts, or returns an inline stream's content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rescale.execution.writers.cuts import Cut, copied_size, cuts, part_of_a_file, whole_file
from rescale.execution.writers.files import pack_receipts, part_size, stream_uri
from rescale.execution.writers.sink import StreamSink
from rescale.execution.writers.stream_writer import stream_writer
from rescale.plan.new_streams import PlannedStream
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import piece_chunks
from rescale.plan.pieces import split
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.runstate.preparation import refuse_claimed
from rescale.storage.contract import CopyRefused
from rescale.storage.store import open_store


class StreamUnit(NamedTuple):
    """Bytes `start` to `start + length` of one planned stream: `part_count` parts of an upload.

    If `first_part_number` is 0, the unit is the whole stream.
    """

    operator_index: int
    stream_index: int
    first_part_number: int
    start: int
    length: int
    upload_id: str = ""
    part_count: int = 0


class UnitResult(NamedTuple):
    """Result of a `StreamUnit`: the packed receipts of its parts, or the size of a whole stream.

    `key_group_lengths` are those of the key groups of a whole stream, and `data` is the content of an inline stream.
    `refusal` is the store's reason for refusing to copy; "" if it did not refuse.
    """

    operator_index: int
    stream_index: int
    first_part_number: int
    receipts: bytes = b""
    size: int = 0
    data: bytes | None = None
    key_group_lengths: tuple[int, ...] = ()
    refusal: str = ""


@dataclass(frozen=True)
class UnitWriter:
    """Writes units of one plan; pickled into the tasks."""

    plan: Plan

    def __call__(self, unit: StreamUnit) -> UnitResult:
        operator = self.plan.operators[unit.operator_index]
        stream = operator.streams[unit.stream_index]
        if unit.first_part_number:
            return self._write_parts(unit, operator, stream)
        return self._write_whole(unit, operator, stream)

    def _write_parts(self, unit: StreamUnit, operator: OperatorPlan, stream: PlannedStream) -> UnitResult:
        unit_cuts = cuts(self.plan, stream)[unit.first_part_number - 1 : unit.first_part_number - 1 + unit.part_count]
        written_parts = [
            self._write_part(unit, operator, stream, part_number, cut)
            for part_number, cut in enumerate(unit_cuts, unit.first_part_number)
        ]
        refusal = next((reason for _, reason in written_parts if reason), "")
        return UnitResult(
            unit.operator_index,
            unit.stream_index,
            unit.first_part_number,
            pack_receipts([r for r, _ in written_parts]),
            refusal=refusal,
        )

    def _write_part(
        self, unit: StreamUnit, operator: OperatorPlan, stream: PlannedStream, part_number: int, cut: Cut
    ) -> tuple[str, str]:
        """Write a part; return its receipt, and the store's reason for refusing to copy it ("" if there is none)."""
        _, pieces = split(stream.pieces, cut)
        uri = stream_uri(self.plan, operator, stream)
        store, part_id = open_store(uri), (uri, unit.upload_id, part_number, cut.start)
        refusal = ""
        if (span := part_of_a_file(self.plan, stream, pieces)) is not None:
            try:
                return store.copy_part(*part_id, span), ""
            except CopyRefused as error:
                refusal = str(error)
        chunks = list(piece_chunks(self.plan, pieces, cut.length))
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return store.put_part(*part_id, data), refusal

    def _write_whole(self, unit: StreamUnit, operator: OperatorPlan, stream: PlannedStream) -> UnitResult:
        uri = stream_uri(self.plan, operator, stream)
        size_of_parts, refusal = part_size(self.plan, stream.size), ""
        if (span := whole_file(self.plan, stream)) is not None:
            try:
                open_store(uri).copy(uri, span)
                return UnitResult(
                    unit.operator_index, unit.stream_index, 0, size=stream.size, key_group_lengths=stream.key_groups
                )
            except CopyRefused as error:
                size_of_parts, refusal = copied_size(self.plan, stream.size), str(error)
        sink = StreamSink(uri, places_of(self.plan).staging, size_of_parts, is_inline=stream.inline)
        key_group_lengths = stream_writer(self.plan, operator, stream).write(sink)
        data = sink.close()
        return UnitResult(
            operator_index=unit.operator_index,
            stream_index=unit.stream_index,
            first_part_number=0,
            receipts=b"",
            size=sink.size,
            data=data,
            key_group_lengths=key_group_lengths,
            refusal=refusal,
        )


@dataclass(frozen=True)
class PreparationWriter:
    """Writes units of a plan into a target that no run has claimed.

    Raises `RequestError` if a run has claimed the target meanwhile, or if the target was discarded.
    """

    plan: Plan

    def __call__(self, unit: StreamUnit) -> UnitResult:
        refuse_claimed(self.plan.target)
        return UnitWriter(self.plan)(unit)
