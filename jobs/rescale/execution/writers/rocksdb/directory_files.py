"""The files of new RocksDB directories, put to the target or kept for `_metadata`."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.execution.sources.chunks import Chunk
from rescale.execution.writers.new_handles import DirectoryFile
from rescale.execution.writers.parts import part_size
from rescale.execution.writers.sink import StreamSink
from rescale.planning.values.plan import Plan
from rescale.target.places import places_of


def directory_sink(plan: Plan, stored: str, size: int, *, inline: bool) -> StreamSink:
    """For a file of about `size` bytes, which is called `stored` in the target."""
    places = places_of(plan)
    return StreamSink(places.stream(stored), places.staging, part_size(plan, size), inline=inline)


def put_directory_file(
    plan: Plan, stored: str, local_name: str, size: int, chunks: Iterable[Chunk], *, inline: bool
) -> DirectoryFile:
    """Writes a file of `size` bytes, which is called `stored` in the target and `local_name` in its directory."""
    sink = directory_sink(plan, stored, size, inline=inline)
    for chunk in chunks:
        sink.write(chunk)
    data = sink.close()
    return DirectoryFile(local_name, stored, sink.size, data)
