"""Files of new RocksDB directories: written or copied to the target, or held in memory for `_metadata`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rescale.execution.sources.chunks import Chunk
from rescale.execution.writers.cuts import is_copied_whole
from rescale.execution.writers.files import part_size
from rescale.execution.writers.new_handles import DirectoryFile
from rescale.execution.writers.sink import StreamSink
from rescale.plan.plan import Plan
from rescale.rocksdb.stored_files import StoredFile
from rescale.runstate.places import places_of
from rescale.storage.contract import CopyRefused, Span
from rescale.storage.store import open_store, read_in_chunks


def directory_sink(plan: Plan, stored_name: str, size: int, *, is_inline: bool) -> StreamSink:
    """Return a sink for a file of about `size` bytes that is called `stored_name` in the target."""
    places = places_of(plan)
    return StreamSink(places.stream(stored_name), places.staging, part_size(plan, size), is_inline=is_inline)


def put_directory_file(
    plan: Plan, stored_name: str, local_name: str, size: int, chunks: Iterable[Chunk], *, is_inline: bool
) -> DirectoryFile:
    """Write a file of `size` bytes that is called `stored_name` in the target and `local_name` in its directory."""
    sink = directory_sink(plan, stored_name, size, is_inline=is_inline)
    for chunk in chunks:
        sink.write(chunk)
    data = sink.close()
    return DirectoryFile(local_name, stored_name, sink.size, data)


def take_directory_file(plan: Plan, stored_name: str, file: StoredFile, *, is_inline: bool) -> DirectoryFile:
    """Copy an existing file to the name `stored_name` in the target.

    The store copies the file if it can, else this task reads and writes it. An `is_inline` file is read into memory.
    """
    refusal = ""
    if not is_inline and (span := _whole_file(plan, file)) is not None:
        uri = places_of(plan).stream(stored_name)
        try:
            open_store(uri).copy(uri, span)
            return DirectoryFile(file.name, stored_name, file.length, None)
        except CopyRefused as error:
            refusal = str(error)
    written_file = put_directory_file(
        plan, stored_name, file.name, file.length, _chunks(plan, file), is_inline=is_inline
    )
    return written_file._replace(refusal=refusal)


def _whole_file(plan: Plan, file: StoredFile) -> Span | None:
    """Return the span of a whole file of the source, if the store may copy it."""
    span = Span(file.uri, file.start, file.length, file.pin) if file.pin is not None else None
    return span if span is not None and is_copied_whole(plan, span) else None


def content_of(file: StoredFile) -> bytes:
    """Return the bytes of a small file, such as a MANIFEST."""
    if file.data is not None:
        return file.data
    return open_store(file.uri).read(file.uri, file.start, file.length, file.pin)


def _chunks(plan: Plan, file: StoredFile) -> Iterator[Chunk]:
    if file.data is not None:
        yield file.data
    else:
        yield from read_in_chunks(file.uri, file.start, file.length, file.pin, plan.chunk_size)
