"""Proof from digests of records: source and result hold the same records, each in its key group."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rescale.execution.compare.source_digests import sum_digests
from rescale.execution.compare.validation.key_counter import MOST_KEYS_COUNTED
from rescale.execution.compare.validation.record_compare import RecordTally
from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.keyed.blocks.record_digest import StateDigest
from rescale.flink.keyed.ttl.counting_age_filter import LeftOutCounts
from rescale.flink.keys.pojo_formulas import KNOWN_HASH
from rescale.runstate.certificate import CertifiedOldRows, CertifiedRecords, CertifiedState
from rescale.snapshot.model import Operator
from rescale.text.errors import IntegrityError, SnapshotError


def record_proof(
    operator: Operator, tallies: Sequence[RecordTally], key_hashes: Mapping[str, str]
) -> CertifiedRecords | None:
    """Check that both sides hold the same records, by state, and that the result has them in the right key groups.

    Returns None if there are no tallies. Raises `IntegrityError` for the first difference.
    """
    if not tallies:
        return None
    source_digests = sum_digests(
        tally.digests_by_state for tally in tallies if not tally.in_result and not tally.are_duplicates
    )
    left_out_counts = {
        name: source_digests.pop(name, StateDigest()).records for name in sorted(operator.dropped_states)
    }
    result_digests = sum_digests(tally.digests_by_state for tally in tallies if tally.in_result)
    _compare_duplicates(
        operator, source_digests, sum_digests(tally.digests_by_state for tally in tallies if tally.are_duplicates)
    )
    for state in sorted(source_digests.keys() | result_digests.keys()):
        source_digest = source_digests.get(state, StateDigest())
        result_digest = result_digests.get(state, StateDigest())
        if source_digest != result_digest:
            are_records_equal = source_digest[:2] == result_digest[:2]
            raise IntegrityError(
                "records lie in the wrong key groups" if are_records_equal else "records were lost, doubled or changed",
                operator=operator.label,
                state=state,
                expected=f"{source_digest.records} records with digest {source_digest.digest:032x}",
                found=f"{result_digest.records} records with digest {result_digest.digest:032x}",
            )
    key_hash = key_hashes.get(operator.operator_id)
    return CertifiedRecords(
        compared=sum(digest.records for digest in source_digests.values()),
        key_hash=key_hash,
        hash_is=hash_rule_status(key_hash),
        distinct_keys_at_least=_distinct_keys(tallies),
        states={
            state: CertifiedState(digest.records, f"{digest.digest:032x}")
            for state, digest in sorted(source_digests.items())
        },
        left_out=left_out_counts,
        old_rows=_old_rows(operator, tallies),
    )


def _old_rows(operator: Operator, tallies: Iterable[RecordTally]) -> dict[str, CertifiedOldRows]:
    """Return the old rows of the source that were left out, by state."""
    left_out_by_state = {name: LeftOutCounts() for name, _ in sorted(operator.cutoffs)}
    for tally in tallies:
        for name, left_out in tally.left_out_by_state.items():
            left_out_by_state[name] = left_out_by_state[name].plus(left_out)
    return {name: CertifiedOldRows(*counts) for name, counts in left_out_by_state.items()}


def hash_rule_status(key_hash: str | None) -> str | None:
    """Return whether a rule for hashes is known or only tested; None where there is no rule."""
    return None if key_hash is None else "known" if key_hash == KNOWN_HASH else "tested, not known"


def _distinct_keys(tallies: Iterable[RecordTally]) -> int:
    """Return a lower bound of the number of keys, given that both sides hold the same records.

    A key lies in one key group, so the counts of tallies of one kind add up. But both sides have the same keys, and raw
    keyed timers may belong to keys that also have state. So the result is the largest count of a kind.
    """
    key_counts: dict[tuple[bool, bool, bool], int] = defaultdict(int)
    for tally in tallies:
        key_counts[tally.in_result, tally.are_timers, tally.are_duplicates] += tally.distinct_keys_at_least
    return min(MOST_KEYS_COUNTED, max(key_counts.values()))


def _compare_duplicates(
    operator: Operator, keyed_digests: Mapping[str, StateDigest], raw_digests: Mapping[str, StateDigest]
) -> None:
    """Raise `SnapshotError` if timers that are stored twice differ: only one copy is in the result."""
    for state in sorted(operator.duplicate_states):
        keyed_digest, raw_digest = keyed_digests.get(state, StateDigest()), raw_digests.get(state, StateDigest())
        if keyed_digest != raw_digest:
            raise SnapshotError(
                "timers are stored twice, as keyed and as raw keyed state, and the two differ",
                operator=operator.label,
                state=state,
                expected=f"{keyed_digest.records} records with digest {keyed_digest.digest:032x}",
                found=f"{raw_digest.records} raw keyed records with digest {raw_digest.digest:032x}",
                advice=RESCALE_CANONICAL_SAVEPOINT,
            )
