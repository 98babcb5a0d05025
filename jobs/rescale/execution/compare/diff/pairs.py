"""Pairs the operators of two snapshots, and refuses pairs whose state cannot be compared.

Records are compared one by one where their boundaries are known: in canonical streams, RocksDB directories and
changelogs, and in heap streams whose serializers are all known. The two snapshots may hold different kinds, in any
shape. Raw keyed timers are compared as the records that a canonical savepoint would hold.

Other heap streams, other raw keyed state, and timers that cannot be delimited are compared by whole key groups. This
needs the same key groups in both snapshots and, for heap streams, the same states in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rescale.flink.keyed.header import KeyedHeader, merge_keyed_headers, require_header
from rescale.flink.keyed.heap.heap_entries import can_delimit_entries
from rescale.flink.keyed.key_group_table import Framing
from rescale.snapshot.keyed_state import Changelog, Database, KeyedStateHolder, KeyedStream
from rescale.snapshot.model import Operator, Snapshot
from rescale.text.errors import SnapshotError, UnsupportedError, located

_CANONICAL_ADVICE = "compare canonical savepoints (flink savepoint --type canonical), which delimit records"


@dataclass(frozen=True)
class OperatorPair:
    """The operators with one id in two snapshots. A side is None if its snapshot does not list the operator."""

    operator_id: str
    label: str
    sides: tuple[Operator | None, Operator | None]

    @property
    def listed_operators(self) -> Iterator[Operator]:
        return (operator for operator in self.sides if operator is not None)

    def keyed_streams(self, operator: Operator | None) -> tuple[KeyedStream, ...]:
        """Return the keyed streams that are not empty."""
        streams = operator.keyed if operator is not None else ()
        return tuple(stream for stream in streams if any(stream.groups) and not stream.has_no_entry)

    def holders(self, operator: Operator | None) -> tuple[KeyedStateHolder, ...]:
        """Return the keyed streams that are not empty, the RocksDB directories and the changelogs."""
        if operator is None:
            return ()
        return (*self.keyed_streams(operator), *operator.databases, *operator.changelogs)

    def record_holders(self, operator: Operator) -> tuple[KeyedStateHolder, ...]:
        """Return the holders of an operator's records that are compared one by one.

        Each raw keyed timer service counts as a state.
        """
        if not self.is_compared_by_record:
            return ()
        return (*self.holders(operator), *(() if self._has_hidden_timers else operator.heap_timers))

    def raw_keyed_streams(self, operator: Operator) -> tuple[KeyedStream, ...]:
        """Return the raw keyed streams that are compared by whole key groups."""
        delimits_timers = self.is_compared_by_record and not self._has_hidden_timers
        return operator.raw_keyed_without_timers if delimits_timers else operator.raw_keyed

    @property
    def _has_hidden_timers(self) -> bool:
        return any(operator.hidden_timers for operator in self.listed_operators)

    @property
    def is_compared_by_record(self) -> bool:
        """Whether keyed state is compared record by record."""
        holders = [holder for side in self.sides for holder in self.holders(side)]
        return all(holder.framing is Framing.CANONICAL or can_delimit_entries(holder.parsed) for holder in holders)


def pair_operators(a: Snapshot, b: Snapshot) -> list[OperatorPair]:
    """Pair the operators that either snapshot lists: first all of A, then the others of B.

    Raises `UnsupportedError` if a pair cannot be compared.
    """
    for snapshot in (a, b):
        snapshot.check_complete()
    operators_by_side = [{operator.operator_id: operator for operator in snapshot.operators} for snapshot in (a, b)]
    pairs = []
    for operator_id in dict.fromkeys([*operators_by_side[0], *operators_by_side[1]]):
        operators = (operators_by_side[0].get(operator_id), operators_by_side[1].get(operator_id))
        labels = [operator.label for operator in operators if operator is not None]
        pair_label = next((label for label in labels if label != operator_id), operator_id)
        pair = OperatorPair(operator_id, pair_label, operators)
        _check_kinds(pair)
        _check_keyed(pair)
        _check_raw_keyed(pair)
        pairs.append(pair)
    return pairs


def _check_kinds(pair: OperatorPair) -> None:
    for operator in pair.listed_operators:
        for holder in operator.other_keyed:
            raise UnsupportedError(
                "keyed state of this kind cannot be compared",
                operator=pair.label,
                expected="key-group streams, RocksDB directories or changelogs",
                found=type(holder.handle).__name__,
                advice=_CANONICAL_ADVICE,
            )
        if operator.has_channel_state:
            raise UnsupportedError(
                "this is an unaligned checkpoint with records in flight, which cannot be compared",
                operator=pair.label,
                found=f"{operator.channel_bytes} bytes of channel state",
                advice="compare savepoints, which never hold channel state",
            )


def _check_keyed(pair: OperatorPair) -> None:
    holders = [holder for side in pair.sides for holder in pair.holders(side)]
    if not holders:
        return
    if not pair.is_compared_by_record and len({holder.framing for holder in holders}) > 1:
        raise UnsupportedError(
            "only one snapshot is in the heap backend's format, and an unknown serializer hides where its records end",
            operator=pair.label,
            advice=_CANONICAL_ADVICE,
        )
    unreadable_holders = [holder for holder in holders if holder.parsed is None]
    for holder in unreadable_holders:
        if isinstance(holder, Database | Changelog):
            with located(operator=pair.label):
                require_header(holder.parsed, advice=_CANONICAL_ADVICE)
    if unreadable_holders and len({holder.header for holder in holders}) > 1:
        raise UnsupportedError(
            "the headers of keyed streams differ, and an unknown serializer hides how",
            operator=pair.label,
            advice="compare snapshots of the same job in which every subtask has registered all its states in open()",
        )
    if not pair.is_compared_by_record:
        if all(map(pair.keyed_streams, pair.sides)):
            message = (
                "heap state with an unknown serializer can only be compared by whole key groups, and the max "
                "parallelism differs"
            )
            _check_same_key_groups(pair, message, _CANONICAL_ADVICE)
        _check_same_states(pair, [holder.parsed for holder in holders if holder.parsed is not None])


def _check_same_states(pair: OperatorPair, headers: Sequence[KeyedHeader]) -> None:
    try:
        merged_headers = merge_keyed_headers(headers) if headers else None
    except SnapshotError as error:
        disagreement = error.what
    else:
        if merged_headers is None or all(
            ids == tuple(range(len(merged_headers.header.states))) for ids in merged_headers.id_maps
        ):
            return
        disagreement = "different states, or another order of states"
    raise UnsupportedError(
        "the keyed streams list different states, and key groups of the heap backend do not mark where a state begins",
        operator=pair.label,
        found=disagreement,
        advice=_CANONICAL_ADVICE,
    )


def _check_raw_keyed(pair: OperatorPair) -> None:
    if all(operator is not None and pair.raw_keyed_streams(operator) for operator in pair.sides):
        message = "raw keyed state can only be compared by whole key groups, and the max parallelism differs"
        _check_same_key_groups(pair, message, "compare snapshots with the same max parallelism")


def _check_same_key_groups(pair: OperatorPair, message: str, advice: str) -> None:
    max_parallelisms = [operator.max_parallelism for operator in pair.listed_operators]
    if len(set(max_parallelisms)) > 1:
        first, second = max_parallelisms
        raise UnsupportedError(
            message,
            operator=pair.label,
            expected=f"max parallelism {first} in both",
            found=second,
            advice=advice,
        )
