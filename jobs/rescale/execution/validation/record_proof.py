"""What follows from the digests of records: source and result hold the same ones, each where it belongs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rescale.errors import IntegrityError, SnapshotError
from rescale.execution.validation.key_counter import MOST_KEYS_COUNTED
from rescale.execution.validation.record_compare import RecordTally
from rescale.flink.advice import CANONICAL
from rescale.flink.keyed.blocks.record_digest import StateDigest
from rescale.flink.serializers.formulas import KNOWN
from rescale.snapshot.model import Operator
from rescale.target.certificate import CertifiedRecords, CertifiedState


def record_proof(
    operator: Operator, tallies: Sequence[RecordTally], key_hashes: Mapping[str, str]
) -> CertifiedRecords | None:
    """Both sides hold the same records, state by state, and the result under the key groups that they should have."""
    if not tallies:
        return None
    source = _added_up(tally for tally in tallies if not tally.in_result and not tally.doubled)
    left_out = {name: source.pop(name, StateDigest()).records for name in sorted(operator.left_out)}
    result = _added_up(tally for tally in tallies if tally.in_result)
    _compare_doubled(operator, source, _added_up(tally for tally in tallies if tally.doubled))
    for state in sorted(source.keys() | result.keys()):
        expected, found = source.get(state, StateDigest()), result.get(state, StateDigest())
        if expected != found:
            same = expected[:2] == found[:2]
            raise IntegrityError(
                "records lie in key groups where they do not belong"
                if same
                else "records were lost, doubled or changed",
                operator=operator.label,
                state=state,
                expected=f"{expected.records} records with digest {expected.digest:032x}",
                found=f"{found.records} records with digest {found.digest:032x}",
            )
    key_hash = key_hashes.get(operator.operator_id)
    return CertifiedRecords(
        compared=sum(digest.records for digest in source.values()),
        key_hash=key_hash,
        hash_is=None if key_hash is None else "known" if key_hash == KNOWN else "tested, not known",
        distinct_keys_at_least=_distinct_keys(tallies),
        states={
            state: CertifiedState(digest.records, f"{digest.digest:032x}") for state, digest in sorted(source.items())
        },
        left_out=left_out,
    )


def _distinct_keys(tallies: Iterable[RecordTally]) -> int:
    """How many there are at least, when both sides hold the same records.

    A key lies in one key group, so what different tallies of one sort counted adds up. But timers that lie apart may be
    of the keys that have state, and both sides have the same keys: of these counts only the largest holds.
    """
    counted: dict[tuple[bool, bool, bool], int] = defaultdict(int)
    for tally in tallies:
        counted[tally.in_result, tally.of_timers, tally.doubled] += tally.keys
    return min(MOST_KEYS_COUNTED, max(counted.values()))


def _compare_doubled(operator: Operator, keyed: Mapping[str, StateDigest], raw: Mapping[str, StateDigest]) -> None:
    """Only one of both is in the result."""
    states = {state.name for stream in operator.doubled_timers if stream.parsed for state in stream.parsed.states}
    for state in sorted(states):
        expected, found = keyed.get(state, StateDigest()), raw.get(state, StateDigest())
        if expected != found:
            raise SnapshotError(
                "timers are there twice, as keyed and as raw keyed state, and these are not the same",
                operator=operator.label,
                state=state,
                expected=f"{expected.records} records with digest {expected.digest:032x}",
                found=f"{found.records} raw keyed ones with digest {found.digest:032x}",
                advice=CANONICAL,
            )


def _added_up(tallies: Iterable[RecordTally]) -> dict[str, StateDigest]:
    """By state."""
    total: dict[str, StateDigest] = {}
    for tally in tallies:
        for name, digest in tally.states.items():
            total[name] = total.get(name, StateDigest()).plus(digest)
    return total
