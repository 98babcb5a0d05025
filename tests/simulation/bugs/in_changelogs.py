"""Bugs in the replay of changes over materialised state. Validation runs the same replay, so it cannot find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from rescale.execution.sources import log_windows
from rescale.flink.keyed.changelog.change_sets import METADATA_KEY_GROUP
from rescale.flink.keyed.changelog.logged_states import Operation
from rescale.flink.keyed.changelog.overlay import Overlay
from rescale.flink.keyed.changelog.replay import ReplayedState
from rescale.snapshot.reading.changelogs import logged_changes
from simulation.bugs import planting
from simulation.bugs.planting import Planter, attribute_planter

Bug = partial(planting.Bug, native=True)

_apply, _remaining = ReplayedState.apply, Overlay.remaining


def _log_planter(change: Callable[[list[Any]], list[Any]]) -> Planter:
    """Return a planter that applies `change` to the changes of a log, but not to the descriptions of states."""

    def changed_log(files: Any, sets: Any) -> Iterator[Any]:
        changes = list(logged_changes(files, sets))
        yield from (logged for logged in changes if logged[0] == METADATA_KEY_GROUP)
        yield from change([logged for logged in changes if logged[0] != METADATA_KEY_GROUP])

    return attribute_planter(log_windows, "logged_changes", changed_log)


def _changes_of_first_set(files: Any, sets: Any) -> Iterator[Any]:
    return logged_changes(files, sets[:1])


def _change_planter(change: Callable[[Any], Any]) -> Planter:
    """Return a planter that replaces each change by another one, or by none where `change` returns None."""

    def apply_changed(self: ReplayedState, logged: Any) -> None:
        if (replacement := change(logged)) is not None:
            _apply(self, replacement)

    return attribute_planter(ReplayedState, "apply", apply_changed)


def _without_clear(logged: Any) -> Any:
    return None if logged.operation == Operation.CLEAR else logged


def _set_instead_of_add(logged: Any) -> Any:
    return logged._replace(operation=Operation.SET) if logged.operation == Operation.ADD else logged


def _without_first_new_row(self: Overlay) -> Iterator[Any]:
    """Leave out the first row that only the changes have."""
    yield from list(_remaining(self))[1:]


BUGS = [
    Bug("changelog: the last change is forgotten", _log_planter(lambda changes: changes[:-1])),
    Bug("changelog: changes backwards", _log_planter(lambda changes: changes[::-1])),
    Bug(
        "changelog: only its first set is read", attribute_planter(log_windows, "logged_changes", _changes_of_first_set)
    ),
    Bug("changelog: cleared values stay", _change_planter(_without_clear)),
    Bug("changelog: added elements replace the list", _change_planter(_set_instead_of_add)),
    Bug("changelog: the first new row is lost", attribute_planter(Overlay, "remaining", _without_first_new_row)),
]
