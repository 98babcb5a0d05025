"""Removes rounds after a failure that each later try would repeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rescale.following.round_plan import RoundPlan
from rescale.runstate.follower.pins import Pins
from rescale.runstate.follower.rounds import Round, RoundKind, round_target
from rescale.storage.locations import contains
from rescale.text.errors import IntegrityError, RescaleError, SnapshotError, UnsupportedError

Prune = Callable[[Round | None], None]
"""Function that removes all rounds and pins that no round after the given one needs; for None, it removes all."""


@contextmanager
def removing_failed(pins: Pins, newest: Round | None, prune: Prune, say: Callable[[str], None]) -> Iterator[None]:
    """If the round that the block makes fails for good, remove it and its pins: another try would fail, too.

    Removes all rounds if all later rounds would read the same damaged file, too.
    """
    try:
        yield
    except (SnapshotError, UnsupportedError, IntegrityError) as error:
        if newest is not None and not isinstance(error, UnsupportedError) and _is_read_again(pins, newest, error):
            prune(None)
            say("a file that later rounds need is damaged, so all rounds were removed: another try makes a new base")
        else:
            prune(newest)
            say("the begun round was removed: another try takes the newest checkpoint")
        raise


@contextmanager
def removing_failed_last(
    pins: Pins, newest_round: Callable[[], Round | None], prune: Prune, planned: RoundPlan
) -> Iterator[None]:
    """If the last round, which the block makes, cannot continue the earlier rounds, remove these.

    Then another try moves all state.
    """
    try:
        yield
    except (SnapshotError, IntegrityError) as error:
        newest = newest_round()
        is_hopeless = isinstance(error, IntegrityError) or (newest is not None and _is_read_again(pins, newest, error))
        if planned.kind is not RoundKind.BASE and is_hopeless:
            prune(None)
            error.advice = (
                "the rounds were removed, so another try moves all state of the last checkpoint; either the store has "
                "damaged a file, or a change was missed: if you find no damage, report this as a bug"
            )
        raise


def _is_read_again(pins: Pins, newest: Round, error: RescaleError) -> bool:
    """Whether the error is about a file of the newest round, its anchor or its root, or of their pinned checkpoints."""
    numbers = {newest.checkpoint, newest.anchor, newest.root}
    return error.path is not None and any(
        contains(round_target(pins.target, number), error.path) or error.path in pins.file_uris(number)
        for number in numbers
    )
