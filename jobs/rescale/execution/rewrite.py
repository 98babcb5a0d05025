"""Streams that are more than copied: canonical key groups with other state ids, compressed elements that are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rescale.errors import SnapshotError
from rescale.execution.sink import StreamSink
from rescale.flink.keyed.canonical import StateIdTranslator
from rescale.flink.snappy import FramedCompressor, FramedDecompressor
from rescale.planning.plan import NewStream, OperatorPlan, Piece
from rescale.planning.streams import split

ReadPieces = Callable[[tuple[Piece, ...]], Iterator[bytes]]


def rewritten_groups(operator: OperatorPlan, stream: NewStream, read: ReadPieces, sink: StreamSink) -> tuple[int, ...]:
    """Writes a canonical stream whose key groups need other state ids; the lengths of the groups as written."""
    lengths = []
    header, *groups = split(stream.pieces, (stream.header_size, *stream.key_groups))
    for chunk in read(header):
        sink.write(chunk)
    for i, pieces in enumerate(groups):
        before = sink.size
        chunks = read(pieces)
        if pieces and pieces[0].ids is not None:
            table = operator.id_tables[pieces[0].ids]
            if stream.compressed:
                chunks = compressed(translated(decompressed(chunks), table))
            else:
                chunks = translated(chunks, table)
        try:
            for chunk in chunks:
                sink.write(chunk)
        except SnapshotError as error:
            key_group = stream.first_key_group + i
            raise error.located(operator=operator.label, state=f"in key group {key_group}") from None
        lengths.append(sink.size - before if pieces else stream.key_groups[i])
    return tuple(lengths)


def translated(chunks: Iterator[bytes], table: tuple[int, ...]) -> Iterator[bytes]:
    """The bytes of one canonical key group, not compressed, with every state id looked up in `table`."""
    translator = StateIdTranslator(table)
    yield from map(translator.feed, chunks)
    translator.finish()


def decompressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    decompressor = FramedDecompressor()
    yield from map(decompressor.feed, chunks)
    decompressor.finish()


def compressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
    compressor = FramedCompressor()
    yield from map(compressor.feed, chunks)
    yield compressor.finish()


def checked_elements(operator: OperatorPlan, stream: NewStream, read: ReadPieces, sink: StreamSink) -> None:
    """Writes a compressed operator-state stream, making sure that every element is whole snappy chunks.

    Flink 1.18.0 and 1.18.1 wrote offsets into the middle of chunks (FLINK-34063): such elements cannot move.
    """
    elements = [(state.name, length) for state in stream.states for length in state.lengths]
    header, *runs = split(stream.pieces, (stream.header_size, *(length for _, length in elements)))
    for chunk in read(header):
        sink.write(chunk)
    for (name, _), pieces in zip(elements, runs, strict=True):
        decompressor = FramedDecompressor()
        try:
            for chunk in read(pieces):
                decompressor.feed(chunk)
                sink.write(chunk)
            decompressor.finish()
        except SnapshotError as error:
            raise error.located(
                operator=operator.label,
                state=name,
                advice="Flink 1.18.0 and 1.18.1 wrote wrong offsets for compressed list state (FLINK-34063): restore "
                "the savepoint at its own parallelism, upgrade Flink, and take another one",
            ) from None
