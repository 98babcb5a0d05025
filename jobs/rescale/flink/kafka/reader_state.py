"""Header of operator state that contains only the splits of a FLIP-27 source."""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.kafka.source import READER_STATE
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import OperatorStateHeader, has_compressed_elements, write_operator_state_header
from rescale.flink.serializers.reading import PROXY_VERSION
from rescale.flink.serializers.rows.core import BYTE_ARRAY
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo, read_state_meta_info


def reader_state_header(like: bytes) -> bytes:
    """Return the header, with the version and the compression of the header `like`."""
    version, compressed = ByteReader(like).i32(), has_compressed_elements(like)
    return write_operator_state_header(OperatorStateHeader(version, compressed, (_reader_state(),), ()))


def _reader_state() -> StateMetaInfo:
    """Return `SourceOperator.SPLITS_STATE_DESC` as `OperatorStateBackend` describes it."""
    out = ByteWriter()
    out.utf(READER_STATE)
    out.i32(StateKind.OPERATOR)
    out.i32(1)
    out.utf("OPERATOR_STATE_DISTRIBUTION_MODE")
    out.utf(DistributionMode.SPLIT_DISTRIBUTE.name)
    out.i32(1)
    out.utf(SerializerKey.VALUE)
    out.i32(PROXY_VERSION)
    out.utf(BYTE_ARRAY.snapshot)
    out.i32(max(BYTE_ARRAY.versions))
    return read_state_meta_info(ByteReader(out.bytes()))
