"""Names SST files that are copied into the target while the job still runs, before the run that uses them is planned.

The identity of such a file is part of its name: the place of its bytes, and the version of the file that holds them.
Flink never changes a file of a checkpoint (`FsCheckpointStateOutputStream` creates each under a random name), so an
equal identity means an equal SST file, with the same properties. Its name in RocksDB's directory and its level may
differ from checkpoint to checkpoint: they are in the MANIFEST, which is rewritten. So every plan that copies a file
copies the same bytes under the same name, and a plan for a later checkpoint uses the files that exist.

The same holds for SST files of the result that a plan continues: a follower copies them ahead for its last round
(`Plan.base_tables`).
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from rescale.plan.new_streams import CopiedFile, NewStream
from rescale.plan.pieces import Piece
from rescale.storage.contract import Pin, Span

_DIGEST_LENGTH = 32


class SourceFile(NamedTuple):
    """A file of the source, pinned to the version that the planner read."""

    uri: str
    pin: Pin


def prepared_piece(stream: NewStream) -> Piece | None:
    """Return the piece that a stream copies, if it is an SST file of the source that can be copied ahead; else None.

    A file that `_metadata` holds, in the source or in the result, is not copied ahead.
    """
    if not isinstance(stream, CopiedFile) or stream.inline or not stream.local_name.endswith(".sst"):
        return None
    piece = stream.pieces[0] if len(stream.pieces) == 1 else None
    return piece if piece is not None and piece.file else None


def span_digest(span: Span) -> str:
    """Return a hash of where a span's bytes are, and of the file's version, as hex digits."""
    etag = None if span.pin.etag is None else span.pin.etag.strip('"')
    digested_values = [span.uri, span.start, span.length, span.pin.size, etag, span.pin.mtime_ns]
    return hashlib.sha256(json.dumps(digested_values).encode()).hexdigest()[:_DIGEST_LENGTH]
