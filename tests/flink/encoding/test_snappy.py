"""Snappy's framing format, compared with cramjam's reader and with streams that Flink's library wrote."""

from __future__ import annotations

from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.flink.encoding.snappy import BLOCK_SIZE, IDENTIFIER, FramedCompressor, FramedDecompressor, plain_stream
from rescale.flink.keyed.key_group_table import Framing
from rescale.text.errors import SnapshotError
from support.snapshots import Keyed, keyed_streams


def compressed(*pieces: bytes) -> bytes:
    compressor = FramedCompressor()
    return b"".join(compressor.feed(piece) for piece in pieces) + compressor.finish()


def decompressed(stream: bytes, piece_size: int | None = None) -> bytes:
    """Return the content of a stream that is fed in pieces of `piece_size` bytes."""
    decompressor = FramedDecompressor()
    size = piece_size or max(1, len(stream))
    content = b"".join(decompressor.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    decompressor.finish()
    return content


contents = st.binary(max_size=300) | st.builds(
    lambda unit, times: unit * times, st.binary(min_size=1, max_size=40), st.integers(0, 9000)
)


@given(contents)
def test_compressed_content_is_read_back(content: bytes) -> None:
    assert decompressed(compressed(content)) == content


def test_stream_without_identifier_is_refused() -> None:
    stream = plain_stream(b"content")
    with pytest.raises(SnapshotError, match="identifier"):
        FramedDecompressor().feed(stream[len(IDENTIFIER) :])
    assert FramedDecompressor().feed(stream) == b"content"


@given(st.binary(max_size=100), st.integers(1, 9))
def test_stream_is_decompressed_in_pieces_of_any_size(content: bytes, piece_size: int) -> None:
    stream = compressed(content) + compressed(content * 20)
    assert decompressed(stream, piece_size) == content * 21


@given(contents)
def test_cramjam_reads_our_streams(content: bytes) -> None:
    assert bytes(cramjam.snappy.decompress(compressed(content))) == content


@given(contents)
def test_streams_of_cramjam_are_read(content: bytes) -> None:
    assert decompressed(bytes(cramjam.snappy.compress(content))) == content


@given(st.lists(contents, max_size=4))
def test_compressed_bytes_are_independent_of_pieces(pieces: list[bytes]) -> None:
    assert compressed(*pieces) == compressed(b"".join(pieces))


@pytest.mark.parametrize("size", [0, 1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 3 * BLOCK_SIZE])
def test_a_stream_has_as_many_chunks_as_blocks(size: int) -> None:
    stream = compressed(b"a" * size)
    assert stream.startswith(IDENTIFIER)
    assert len(chunks(stream)) - 1 == -(-size // BLOCK_SIZE)
    assert decompressed(stream) == b"a" * size


def chunks(stream: bytes) -> list[tuple[int, bytes]]:
    chunks_so_far, at = [], 0
    while at < len(stream):
        length = int.from_bytes(stream[at + 1 : at + 4], "little")
        chunks_so_far.append((stream[at], stream[at + 4 : at + 4 + length]))
        at += 4 + length
    return chunks_so_far


def test_block_that_compresses_badly_is_stored_uncompressed() -> None:
    assert [kind for kind, _ in chunks(compressed(bytes(range(256))))] == [0xFF, 0x01]
    assert [kind for kind, _ in chunks(compressed(bytes(256)))] == [0xFF, 0x00]


def test_plain_stream_of_an_empty_heap_state_equals_flinks() -> None:
    expected = bytes.fromhex("ff060000734e61507059 010a00002c99979b 000000000000")
    assert plain_stream(bytes(6)) == expected
    assert decompressed(expected) == bytes(6)


def test_identifiers_and_skippable_chunks_are_skipped_anywhere() -> None:
    first, second = compressed(b"one"), compressed(b"two")
    assert decompressed(first + b"\x80\x02\x00\x00xx" + b"\xfe\x00\x00\x00" + second) == b"onetwo"


def test_part_of_a_stream_is_read_without_identifier_on_request() -> None:
    """An element of operator state lies in the middle of a stream."""
    part = compressed(b"state").removeprefix(IDENTIFIER)
    with pytest.raises(SnapshotError, match="does not begin with its identifier"):
        decompressed(part)
    decompressor = FramedDecompressor(has_identifier=False)
    assert decompressor.feed(part) == b"state"
    decompressor.finish()


LONG_CONTENT = b"flink " * 40


@pytest.mark.parametrize(
    ("stream", "what"),
    [
        (IDENTIFIER[:-1], "ends inside"),
        (compressed(LONG_CONTENT)[:-1], "ends inside"),
        (IDENTIFIER + b"\xff\x06\x00\x00sNaPpX", "not a snappy chunk"),
        (IDENTIFIER + b"\x02\x00\x00\x00", "not a snappy chunk"),
        (IDENTIFIER + b"\x7f\x01\x00\x00x", "not a snappy chunk"),
        (IDENTIFIER + b"\x01\x03\x00\x00xxx", "not a snappy chunk"),
        (IDENTIFIER + b"\x00\x06\x00\x00aaaa\xff\xff", "does not decompress"),
        (IDENTIFIER + b"\x00\xff\xff\xff", "impossible length"),
        (IDENTIFIER + b"\x01\xff\xff\xff", "impossible length"),
        (compressed(b"state")[:-1] + b"E", "wrong checksum"),
    ],
)
def test_damaged_stream_is_refused(stream: bytes, what: str) -> None:
    with pytest.raises(SnapshotError, match=what):
        decompressed(stream)


@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_flipped_byte_is_refused_or_skips_the_chunk(flip: int) -> None:
    """A flip can turn a chunk into a skippable one: the stream is then valid, with other content."""
    stream = compressed(LONG_CONTENT)
    for at in range(len(stream)):
        with suppress(SnapshotError):
            assert decompressed(stream[:at] + bytes((stream[at] ^ flip,)) + stream[at + 1 :]) in (LONG_CONTENT, b"")


@pytest.mark.parametrize("claimed_size", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x81\x80\x04"])
def test_block_that_claims_an_impossible_size_is_refused(claimed_size: bytes) -> None:
    body = b"aaaa" + claimed_size + bytes(20)
    with pytest.raises(SnapshotError, match="more than 64 KiB"):
        decompressed(IDENTIFIER + b"\x00" + len(body).to_bytes(3, "little") + body)


COMPRESSED_STREAMS = [
    keyed for keyed in keyed_streams() if keyed.stream.parsed is not None and keyed.stream.parsed.compressed
]


@pytest.mark.parametrize("keyed", COMPRESSED_STREAMS, ids=lambda keyed: keyed.where)
def test_compressed_groups_of_flink_are_read_and_compressed_again(keyed: Keyed) -> None:
    """Chunks stored uncompressed come out unchanged. Compressed ones may differ: our snappy is another library."""
    header_size = 4 if keyed.stream.framing is Framing.HEAP else 0
    for _, group in keyed.groups():
        for rest in group[header_size:].split(IDENTIFIER)[1:]:
            stream = IDENTIFIER + rest
            content = decompressed(stream)
            assert bytes(cramjam.snappy.decompress(stream)) == content
            assert decompressed(compressed(content)) == content
            if all(kind != 0x00 for kind, _ in chunks(stream)):
                assert compressed(content) == stream


def test_fixtures_hold_compressed_and_uncompressed_chunks() -> None:
    kinds = {
        kind
        for keyed in COMPRESSED_STREAMS
        if keyed.stream.framing is Framing.CANONICAL
        for _, group in keyed.groups()
        for kind, _ in chunks(group)
    }
    assert kinds == {0xFF, 0x00, 0x01}
