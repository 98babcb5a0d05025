"""The header of operator state that holds the splits of a FLIP-27 source, and nothing else."""

from __future__ import annotations

from rescale.flink.encoding.binary import ByteReader, ByteWriter
from rescale.flink.kafka.source import READER_STATE
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.operator_state import OperatorStateHeader, has_compressed_elements, write_operator_state_header
from rescale.flink.serializers.reading import PROXY_VERSION
from rescale.flink.state_meta_info import SerializerKey, StateKind, StateMetaInfo, read_state_meta_info

_SNAPSHOT_VERSION = 3
"""`SimpleTypeSerializerSnapshot`."""
_SERIALIZER = (
    "org.apache.flink.api.common.typeutils.base.array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"
)


def reader_state_header(like: bytes) -> bytes:
    """In the version of another header, and with elements compressed as there."""
    version, compressed = ByteReader(like).i32(), has_compressed_elements(like)
    return write_operator_state_header(OperatorStateHeader(version, compressed, (_reader_state(),), ()))


def _reader_state() -> StateMetaInfo:
    """`SourceOperator.SPLITS_STATE_DESC`, as `OperatorStateBackend` describes it."""
    out = ByteWriter()
    out.utf(READER_STATE)
    out.i32(StateKind.OPERATOR)
    out.i32(1)
    out.utf("OPERATOR_STATE_DISTRIBUTION_MODE")
    out.utf(DistributionMode.SPLIT_DISTRIBUTE.name)
    out.i32(1)
    out.utf(SerializerKey.VALUE)
    out.i32(PROXY_VERSION)
    out.utf(_SERIALIZER)
    out.i32(_SNAPSHOT_VERSION)
    return read_state_meta_info(ByteReader(out.bytes()))
