"""What a task needs to know of an operator whose records it reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rescale.errors import IntegrityError
from rescale.execution.rekeying.key_groups import NewKeyGroups
from rescale.flink.arrays import Longs
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header
from rescale.flink.keyed.records import MOST_UNKNOWN_STATES
from rescale.flink.serializers.snapshot import UnknownSerializer
from rescale.planning.piece_bytes import read_piece
from rescale.planning.plan import OperatorPlan, Piece, Plan


@dataclass(frozen=True)
class OperatorSource:
    """`header` is that of the result; None where a serializer is not known."""

    header: KeyedHeader | None
    number_of_states: int
    key_groups: NewKeyGroups


def operator_source(plan: Plan, operator: OperatorPlan) -> OperatorSource:
    assert operator.rekeying is not None
    header = read_header(plan, operator.rekeying.header)
    keys = None
    if operator.rekeying.key_hash is not None:
        if header is None:
            raise IntegrityError("a hash of keys whose serializer is not known", operator=operator.label)
        keys = composite_keys(header, operator.rekeying.key_hash)
    return OperatorSource(
        header,
        MOST_UNKNOWN_STATES if header is None else len(header.states),
        NewKeyGroups(keys, operator.max_parallelism, operator.new_max_parallelism),
    )


def read_header(plan: Plan, piece: Piece) -> KeyedHeader | None:
    path, data = read_piece(plan, piece)
    try:
        return read_keyed_header(data, path)
    except UnknownSerializer:
        return None


def id_table(operator: OperatorPlan, ids: int | None, number_of_states: int) -> Longs:
    """The new id of every state id of a source stream."""
    return np.array(range(number_of_states) if ids is None else operator.id_tables[ids], np.int64)
