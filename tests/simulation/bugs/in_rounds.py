"""Bugs in rounds of a live rescale: in the choice of changed keys, and in level and sequence number of the changes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from rescale.execution.sources.change_records import ChangeReader
from rescale.execution.writers.rocksdb import rows_writer
from rescale.planning import continuing
from rescale.rocksdb.assembly.new_database import ChangesPlace
from rescale.rocksdb.engine.changes.changed_keys import Candidates
from rescale.rocksdb.engine.changes.keys import NO_KEYS
from rescale.snapshot.databases import unshared_tables
from simulation.bugs import planting
from simulation.bugs.planting import Planter, attribute_planter, with_changed_result

Bug = partial(planting.Bug, rounds=True)

_differing_tables = unshared_tables.differing_tables
_candidates, _changes_of_blocks = ChangeReader._candidates, rows_writer.changes_of_blocks
_take_over_base_files, _place_of_changes = rows_writer.take_over_base_files, continuing.place_of_changes


def _without_undecided_keys(self: Any, *arguments: Any) -> Iterator[Candidates]:
    return (candidates._replace(undecided=NO_KEYS, merged=NO_KEYS) for candidates in _candidates(self, *arguments))


def _without_last_state(self: Any, state: str, before: Any, after: Any) -> Iterator[Candidates]:
    candidates = _candidates(self, state, before, after)
    return iter(()) if state == self._header.states[-1].name else candidates


def _without_deletes(blocks: Any) -> Iterator[tuple[Any, Any]]:
    for rows, order in _changes_of_blocks(blocks):
        yield rows, order[rows.kinds[order] != 0]


def _place_planter(level: int, sequence: int) -> Planter:
    """Return a planter that adds these numbers to the level and the sequence number of the changes."""

    def shifted_place(place: ChangesPlace | None) -> ChangesPlace | None:
        return place and ChangesPlace(place.level + level, place.sequence + sequence)

    return attribute_planter(continuing, "place_of_changes", with_changed_result(_place_of_changes, shifted_place))


BUGS = [
    Bug(
        "rounds: keys that no entry decides are not looked up",
        attribute_planter(ChangeReader, "_candidates", _without_undecided_keys),
    ),
    Bug(
        "rounds: files of the earlier checkpoint are not read",
        attribute_planter(
            unshared_tables,
            "differing_tables",
            with_changed_result(_differing_tables, lambda own: (frozenset(), own[1])),
        ),
    ),
    Bug(
        "rounds: files of the later checkpoint are not read",
        attribute_planter(
            unshared_tables,
            "differing_tables",
            with_changed_result(_differing_tables, lambda own: (own[0], frozenset())),
        ),
    ),
    Bug("rounds: the last state is not read", attribute_planter(ChangeReader, "_candidates", _without_last_state)),
    Bug("rounds: deletes are not written", attribute_planter(rows_writer, "changes_of_blocks", _without_deletes)),
    Bug("rounds: changes are as old as the base", _place_planter(0, -1)),
    Bug("rounds: changes lie beside the base", _place_planter(1, 0)),
    Bug(
        "rounds: a file of the base is left out",
        attribute_planter(
            rows_writer,
            "take_over_base_files",
            with_changed_result(_take_over_base_files, lambda files: {place: own[1:] for place, own in files.items()}),
        ),
    ),
]
