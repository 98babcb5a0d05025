"""Prepares reading the records that get new key groups in a plan: their sources, header and hash rule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rescale.execution.sources.record_sources import RecordPlace, RecordSource
from rescale.flink.arrays import Longs
from rescale.flink.keyed.composite_key import composite_keys
from rescale.flink.keyed.header import KeyedHeader, read_keyed_header, require_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.keyed.new_key_groups import NewKeyGroups
from rescale.flink.keyed.ttl.age_filter import AgeFilter
from rescale.flink.keyed.ttl.last_access import age_rules
from rescale.flink.serializers.snapshot import UnknownSerializerError
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.piece_bytes import read_piece
from rescale.plan.pieces import Piece
from rescale.plan.plan import Plan
from rescale.plan.rekeying import PlannedSource, Rekeying
from rescale.snapshot.places import StreamPlace
from rescale.text.errors import IntegrityError


@dataclass(frozen=True)
class RekeyedOperator:
    """An operator, and its records that get new key groups in one `rekeying`.

    `header` is the result's header, None if it has an unknown serializer.
    """

    plan: Plan
    operator: OperatorPlan
    rekeying: Rekeying
    header: KeyedHeader | None
    key_groups: NewKeyGroups

    def source(self, planned: PlannedSource) -> tuple[RecordSource, Longs]:
        """Return a planned source with the headers that its reader needs, and the new ids of its states."""
        state_ids = range(self.rekeying.number_of_states)
        new_ids = np.array(state_ids if planned.ids is None else self.operator.id_tables[planned.ids], np.int64)
        number_of_states = None if self.header is None else len(new_ids)
        place: RecordPlace
        match planned.place:
            case StreamPlace(framing=Framing.CANONICAL) as canonical:
                place = canonical.with_headers(lambda _: None)
            case other:
                place = other.with_headers(self._parse_header)
        return RecordSource(place, self.operator.max_parallelism, number_of_states), new_ids

    def young_record_filter(self) -> AgeFilter | None:
        """Return the filter that drops old rows from records with new state ids; None if no rows are left out."""
        cutoffs = self.operator.cutoffs if self.rekeying is self.operator.rekeying else ()
        if not cutoffs:
            return None
        return AgeFilter(age_rules(require_header(self.header), cutoffs), self.rekeying.number_of_states)

    def _parse_header(self, piece: Piece) -> KeyedHeader | None:
        return self.header if piece == self.rekeying.header else read_header(self.plan, piece)


def rekeyed_operator(plan: Plan, operator: OperatorPlan, rekeying: Rekeying) -> RekeyedOperator:
    """Read the operator's new header, and prepare the rule by which its keys get key groups."""
    header = read_header(plan, rekeying.header)
    keys = None
    if rekeying.key_hash is not None:
        if header is None:
            raise IntegrityError(
                "the plan has a hash rule for keys with an unknown serializer", operator=operator.label
            )
        keys = composite_keys(header, rekeying.key_hash)
    key_groups = NewKeyGroups(keys, operator.max_parallelism, operator.new_max_parallelism)
    return RekeyedOperator(plan, operator, rekeying, header, key_groups)


def read_header(plan: Plan, piece: Piece) -> KeyedHeader | None:
    """Read a keyed header; None if it has an unknown serializer."""
    path, data = read_piece(plan, piece)
    try:
        return read_keyed_header(data, path).with_kryo(plan.kryo)
    except UnknownSerializerError:
        return None
