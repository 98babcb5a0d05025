"""Limits of a follower: when it ends, and how fast it makes rounds."""

from __future__ import annotations

from dataclasses import dataclass

from rescale.runstate.follower.rounds import Round


@dataclass(frozen=True)
class Limits:
    """Limits of a follower; None stands for no limit.

    The follower ends after `max_rounds` rounds, not counting the base. It publishes a copy of every `publish_every`-th
    round. `pause_above` is the largest average rate, in bytes per second.
    """

    max_rounds: int | None = None
    publish_every: int | None = None
    pause_above: int | None = None


def pause_after(finished_round: Round, bytes_per_second: int | None) -> float:
    """Return the seconds to wait until a round has read and written at most `bytes_per_second` on average."""
    if bytes_per_second is None or finished_round.seconds is None:
        return 0.0
    return max(
        0.0, (finished_round.bytes_read + finished_round.bytes_changed) / bytes_per_second - finished_round.seconds
    )


def awaited_event(finished_round: Round, pause_seconds: float) -> str:
    """Return what a follower waits for after a round and a pause, as a clause."""
    pause_clause = (
        f"{pause_seconds:.0f} seconds to pass because of the limit on the rate, then " if pause_seconds >= 1 else ""
    )
    return f"{pause_clause}a checkpoint after {finished_round.checkpoint}"
