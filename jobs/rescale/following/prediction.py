"""Predicts how long a last round would take."""

from __future__ import annotations

from dataclasses import replace

from rescale.runstate.follower.rounds import Round, RoundKind

_OVERHEAD_BYTES = 60_000_000
"""Number of changed bytes that take as long to move as everything else in a round; measured with 4 to 6 databases."""


def with_duration(finished: Round, seconds: float, now: float) -> Round:
    """Return a round that took `seconds`, with the predicted time of a last round from a checkpoint made `now`.

    `now` is in seconds since 1970. The last round would move what the job has changed since the checkpoint of this
    round, but is not taken to move more than this round. Only a round that continues the one before it gives a new
    prediction.
    """
    if finished.kind is not RoundKind.ROUND:
        return replace(finished, seconds=seconds)
    changed = expected = finished.bytes_changed
    if finished.change_rate is not None and finished.taken is not None:
        since = max(seconds, now - finished.taken)  # the store's clock may be ahead of this one
        expected = min(changed, int(finished.change_rate * since))
    share = (_OVERHEAD_BYTES + expected) / (_OVERHEAD_BYTES + changed)
    return replace(finished, seconds=seconds, last_round_seconds=seconds * share)
