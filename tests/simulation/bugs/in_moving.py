"""Bugs in the code that moves bytes: units of work, parts of streams, sinks, resumed runs."""

# ruff: noqa: ARG005 (a replacement takes the arguments of the replaced function)

from __future__ import annotations

from typing import Any

from rescale.execution.tasks.in_process import InProcessShuffle, InProcessTasks
from rescale.execution.writers import planned_streams
from rescale.execution.writers.canonical import canonical_writer
from rescale.execution.writers.canonical.parts_layout import stream_parts
from rescale.execution.writers.canonical.range_parts import RangeParts
from rescale.execution.writers.cuts import Cut
from rescale.execution.writers.sink import StreamSink
from rescale.execution.writers.stream_units import StreamUnit, UnitWriter
from rescale.execution.writers.stream_writer import CopyingWriter, stream_writer
from rescale.plan.piece_bytes import piece_chunks
from rescale.storage.locations import name
from rescale.text.errors import StoreError
from simulation.bugs.planting import Bug, attribute_planter, function_planter, with_changed_result

_close, _put_part = StreamSink.close, StreamSink._put_part
_units_to_write, _write_part, _write_whole = (
    planned_streams._units_to_write,
    UnitWriter._write_part,
    UnitWriter._write_whole,
)
_run, _rows_of = InProcessTasks.run, InProcessShuffle._rows_of
_take = RangeParts._take


def _without_tail(self: StreamSink) -> Any:
    del self._buffer[-1:]
    return _close(self)


def _put_and_keep_part(self: StreamSink) -> None:
    """Keep the bytes of a part in the buffer after the part is put."""
    kept_bytes = bytes(self._buffer[:50])
    _put_part(self)
    self._buffer += kept_bytes


def _close_without_put(self: StreamSink) -> Any:
    """Put no file whose size is a multiple of three."""
    return _close(self) if self._inline or self.size % 3 else None


def _treat_any_size_as_written(plan: Any, existing_sizes: Any, least: int, place: Any) -> Any:
    """Treat each existing file as if it had the planned size."""
    operator, stream = planned_streams._planned_stream(plan, place)
    file_name = name(planned_streams.stream_uri(plan, operator, stream))
    planned_sizes = {file_name: stream_writer(plan, operator, stream).size} if file_name in existing_sizes else {}
    return _units_to_write(plan, {**existing_sizes, **planned_sizes}, least, place)


def _with_part_shifted(self: UnitWriter, unit: StreamUnit, operator: Any, stream: Any, number: int, cut: Cut) -> Any:
    return _write_part(self, unit, operator, stream, number, cut._replace(start=cut.start - 1) if cut.start else cut)


def _with_part_twice(self: UnitWriter, unit: StreamUnit, operator: Any, stream: Any, number: int, cut: Cut) -> Any:
    """Write the first part again, one byte longer, as a wrong retry would."""
    result = _write_part(self, unit, operator, stream, number, cut)
    longer = cut._replace(length=cut.length + 1)
    return _write_part(self, unit, operator, stream, number, longer) if cut.start == 0 else result


def _in_order_of_completion(plan: Any, place: Any, results: Any, upload_id: str) -> Any:
    """Number the parts in the order of their completion."""
    renumbered = [
        result._replace(first_part_number=i) if result.first_part_number else result
        for i, result in enumerate(results, 1)
    ]
    return _complete_stream(plan, place, renumbered, upload_id)


_complete_stream = planned_streams._complete_stream


def _without_one_unit(self: InProcessTasks, work: Any, units: Any, progress: Any, **_: Any) -> Any:
    return _run(self, work, units[:-1] if len(units) > 2 else units, progress)


def _without_failed_units(self: InProcessTasks, work: Any, units: Any, progress: Any, **_: Any) -> Any:
    """Ignore errors of tasks, whose results are then missing."""

    def work_or_none(unit: Any) -> Any:
        try:
            return work(unit)
        except StoreError:
            return None

    return [result for result in _run(self, work_or_none, units, progress) if result is not None]


def _write_without_last_byte(self: UnitWriter, *arguments: Any) -> Any:
    result = _write_whole(self, *arguments)
    return result._replace(data=result.data[:-1]) if result.data else result


def _with_rows_twice(self: InProcessShuffle, partition: int) -> Any:
    return list(_rows_of(self, partition)) * 2


def _without_a_row(self: InProcessShuffle, partition: int) -> Any:
    return list(_rows_of(self, partition))[1:]


def _first_chunks(plan: Any, pieces: Any, bytes_at_once: Any = None) -> Any:
    """Copy only the first chunk of each piece."""
    for piece in pieces:
        yield from list(piece_chunks(plan, [piece], bytes_at_once))[:1]


_write_with_lengths_backwards = with_changed_result(CopyingWriter.write, lambda lengths: lengths[::-1])

BUGS = [
    Bug("sink: the last byte is lost", attribute_planter(StreamSink, "close", _without_tail)),
    Bug("sink: a part is written twice", attribute_planter(StreamSink, "_put_part", _put_and_keep_part)),
    Bug("sink: a file is never put", attribute_planter(StreamSink, "close", _close_without_put)),
    Bug(
        "resume: a file of any size counts as written",
        attribute_planter(planned_streams, "_units_to_write", _treat_any_size_as_written),
    ),
    Bug("parts: one byte early", attribute_planter(UnitWriter, "_write_part", _with_part_shifted)),
    Bug("parts: a second try appends", attribute_planter(UnitWriter, "_write_part", _with_part_twice)),
    Bug("parts: numbered as they end", attribute_planter(planned_streams, "_complete_stream", _in_order_of_completion)),
    Bug(
        "parts: staged parts are not joined",
        attribute_planter(canonical_writer, "merge_staged_parts", lambda plan, merge: (merge, "")),
    ),
    Bug(
        "parts: the header is no part",
        function_planter(stream_parts, with_changed_result(stream_parts, lambda works: works[1:] or works)),
    ),
    Bug(
        "parts: a range gives one byte less",
        attribute_planter(RangeParts, "_take", lambda self, size: _take(self, size)[1:]),
    ),
    Bug("tasks: the last unit is forgotten", attribute_planter(InProcessTasks, "run", _without_one_unit)),
    Bug("tasks: an error is ignored", attribute_planter(InProcessTasks, "run", _without_failed_units)),
    Bug("inline: the last byte is lost", attribute_planter(UnitWriter, "_write_whole", _write_without_last_byte)),
    Bug("shuffle: rows arrive twice", attribute_planter(InProcessShuffle, "_rows_of", _with_rows_twice)),
    Bug("shuffle: a row is lost", attribute_planter(InProcessShuffle, "_rows_of", _without_a_row)),
    Bug("copy: only the first chunk", function_planter(piece_chunks, _first_chunks)),
    Bug(
        "copy: lengths of key groups backwards",
        attribute_planter(CopyingWriter, "write", _write_with_lengths_backwards),
    ),
]
