"""Files that are copied ahead: only their names say which bytes they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.plan.new_streams import CopiedFile
from rescale.plan.pieces import Piece
from rescale.plan.prepared_files import SourceFile, prepared_piece, span_digest
from rescale.storage.contract import Pin, Span

FILE = SourceFile("s3://flink/shared/a", Pin(100, etag='"1"'))
PIECE = Piece(1, 10, 20)


@pytest.mark.parametrize(
    ("file", "piece"),
    [
        (FILE._replace(uri="s3://flink/shared/b"), PIECE),
        (FILE._replace(pin=replace(FILE.pin, size=101)), PIECE),
        (FILE._replace(pin=replace(FILE.pin, etag='"2"')), PIECE),
        (FILE._replace(pin=Pin(100, mtime_ns=1)), PIECE),
        (FILE, PIECE._replace(start=11)),
        (FILE, PIECE._replace(length=21)),
    ],
)
def test_other_bytes_or_another_version_have_another_identity(file: SourceFile, piece: Piece) -> None:
    assert span_digest(span(file, piece)) != span_digest(span(FILE, PIECE))


def test_identity_does_not_depend_on_quotes_of_etags() -> None:
    assert span_digest(span(FILE._replace(pin=Pin(100, etag="1")), PIECE)) == span_digest(span(FILE, PIECE))


def span(file: SourceFile, piece: Piece) -> Span:
    return Span(file.uri, piece.start, piece.length, file.pin)


@pytest.mark.parametrize(
    ("stream", "is_prepared"),
    [
        (CopiedFile(subtask=0, pieces=(PIECE,), inline=False, local_name="000001.sst"), True),
        (CopiedFile(subtask=0, pieces=(PIECE,), inline=True, local_name="000001.sst"), False),
        (CopiedFile(subtask=0, pieces=(PIECE,), inline=False, local_name="OPTIONS-1"), False),
        (CopiedFile(subtask=0, pieces=(PIECE._replace(file=0),), inline=False, local_name="000001.sst"), False),
        (CopiedFile(subtask=0, pieces=(PIECE._replace(file=None),), inline=False, local_name="000001.sst"), False),
        (CopiedFile(subtask=0, pieces=(), inline=False, local_name="000001.sst"), False),
    ],
)
def test_only_sst_files_outside_of_metadata_are_copied_ahead(stream: CopiedFile, is_prepared: bool) -> None:
    assert (prepared_piece(stream) is not None) is is_prepared
