"""Streams that are more than copied: key groups with other state ids, compressed elements that are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rescale.errors import SnapshotError
from rescale.execution.sources.chunks import Chunk, runs
from rescale.execution.sources.compression import compressed, decompressed
from rescale.execution.writers.sink import StreamSink
from rescale.flink.keyed.canonical import StateIdTranslator
from rescale.flink.snappy import FramedDecompressor
from rescale.planning.pieces import split
from rescale.planning.plan import NewStream, OperatorPlan, Piece

Read = Callable[[tuple[Piece, ...]], Iterator[bytes]]

WRONG_OFFSETS_ADVICE = (
    "Flink 1.18.0 and 1.18.1 wrote wrong offsets for compressed list state (FLINK-34063): restore the savepoint at its "
    "own parallelism, upgrade Flink, and take another one"
)


def rewritten_groups(operator: OperatorPlan, stream: NewStream, read: Read, sink: StreamSink) -> tuple[int, ...]:
    """Writes a canonical stream whose key groups need other state ids; the lengths of the groups as written."""
    lengths = []
    sizes = (stream.header_size, *(max(length, 0) for length in stream.key_groups))
    (_, header), *groups = zip(split(stream.pieces, sizes), runs(read(stream.pieces), sizes), strict=True)
    for chunk in header:
        sink.write(chunk)
    for key_group, (pieces, chunks) in enumerate(groups, stream.first_key_group):
        before = sink.size
        try:
            for part in _with_ids(operator, pieces, chunks, stream.compressed):
                sink.write(part)
        except SnapshotError as error:
            raise error.located(operator=operator.label, state=f"in key group {key_group}") from None
        lengths.append(sink.size - before if pieces else stream.key_groups[key_group - stream.first_key_group])
    return tuple(lengths)


def _with_ids(
    operator: OperatorPlan, pieces: tuple[Piece, ...], chunks: Iterator[Chunk], is_compressed: bool
) -> Iterator[Chunk]:
    """One key group with the ids that its piece asks for."""
    if not pieces or pieces[0].ids is None:
        return chunks
    table = operator.id_tables[pieces[0].ids]
    if is_compressed:
        return compressed(translated(decompressed(chunks), table))
    return translated(chunks, table)


def translated(chunks: Iterator[Chunk], table: tuple[int, ...]) -> Iterator[bytes]:
    """The bytes of one canonical key group, not compressed, with every state id looked up in `table`."""
    translator = StateIdTranslator(table)
    yield from map(translator.feed, chunks)
    translator.finish()


def checked_elements(operator: OperatorPlan, stream: NewStream, read: Read, sink: StreamSink) -> None:
    """Writes a compressed operator-state stream, making sure that every element is whole snappy chunks.

    Flink 1.18.0 and 1.18.1 wrote offsets into the middle of chunks (FLINK-34063): such elements cannot move.
    """
    elements = [(state.name, length) for state in stream.states for length in state.lengths]
    sizes = (stream.header_size, *(length for _, length in elements))
    consecutive = runs(read(stream.pieces), sizes)
    for chunk in next(consecutive):
        sink.write(chunk)
    for (name, _), chunks in zip(elements, consecutive, strict=True):
        decompressor = FramedDecompressor(identifier=False)
        try:
            for chunk in chunks:
                decompressor.feed(chunk)
                sink.write(chunk)
            decompressor.finish()
        except SnapshotError as error:
            raise error.located(
                operator=operator.label,
                state=name,
                advice=WRONG_OFFSETS_ADVICE,
            ) from None
