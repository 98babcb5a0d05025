"""Predicts how long a last round would take."""

from __future__ import annotations

from dataclasses import replace

from rescale.runstate.follower.rounds import Round, RoundKind

_OVERHEAD_BYTES = 60_000_000
"""Number of changed bytes that take as long to move as everything else in a round; measured with 4 to 6 databases."""


def with_duration(finished_round: Round, seconds: float, now: float) -> Round:
    """Return the round with its duration `seconds`, and with the predicted duration of a last round after it.

    The prediction is for a last round from a checkpoint made `now`, in seconds since 1970. The last round would move
    what the job has changed since the checkpoint of this round; the prediction assumes that this is at most what this
    round moved. Only a round that continues the one before it gives a new prediction.
    """
    if finished_round.kind is not RoundKind.ROUND:
        return replace(finished_round, seconds=seconds)
    changed_bytes = expected_bytes = finished_round.bytes_changed
    if finished_round.change_rate is not None and finished_round.taken is not None:
        seconds_since_checkpoint = max(
            seconds, now - finished_round.taken
        )  # the store's clock may be ahead of this one
        expected_bytes = min(changed_bytes, int(finished_round.change_rate * seconds_since_checkpoint))
    time_ratio = (_OVERHEAD_BYTES + expected_bytes) / (_OVERHEAD_BYTES + changed_bytes)
    return replace(finished_round, seconds=seconds, last_round_seconds=seconds * time_ratio)
