"""Resolves requests to leave old rows out (`UID:STATE=AGE`): finds the state, and turns the age into a time.

`_metadata` does not say when its checkpoint was made, so an age counts back from the time at which `_metadata` was
written, according to its store. The plan holds only the resulting time of last access: rows last accessed at or before
it are left out. The restored job checks TTLs after `_metadata` was written, so a row whose TTL had expired when
`_metadata` was written is also expired when the job starts. A copied `_metadata` has a later time; for a copy, a
request may name the time of last access itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from rescale.flink.keyed.ttl.last_access import format_time, milliseconds
from rescale.planning.request.ages import Age
from rescale.planning.request.operator_shapes import find_state
from rescale.snapshot.model import Snapshot
from rescale.snapshot.old_rows import OldRows, old_rows
from rescale.text.errors import RequestError


def resolve_ages(snapshot: Snapshot, ages: Mapping[str, Age], dropped_ids: Collection[str]) -> tuple[OldRows, ...]:
    """Return the old rows that the requested `ages` stand for; `dropped_ids` are the ids of dropped operators.

    Raises `RequestError` if a state does not exist or has no TTL, or if the time of the snapshot is not known, and
    `UnsupportedError` if the last access of rows cannot be read.
    """
    dropped_rows: list[OldRows] = []
    for state, age in ages.items():
        operator, name = find_state(
            snapshot.operators, state, lambda operator, name: any(s.name == name for s in operator.keyed_states)
        )
        if operator.operator_id in dropped_ids:
            raise RequestError(
                "an operator is dropped, and old rows of one of its states as well",
                operator=operator.label,
                found=state,
                advice="ask for one of the two",
            )
        if any((rows.operator_id, rows.name) == (operator.operator_id, name) for rows in dropped_rows):
            raise RequestError("the same state is named twice", operator=operator.label, state=name, found=state)
        dropped_rows.append(old_rows(operator, name, _cutoff_ms(snapshot, age, state)))
    return tuple(dropped_rows)


def _cutoff_ms(snapshot: Snapshot, age: Age, state: str) -> int:
    """Return the time of last access, in ms since 1970, up to which rows are left out."""
    if isinstance(age, timedelta):
        if snapshot.metadata_time is None:
            raise RequestError(
                "the store does not know when the snapshot was written, so an age cannot be counted back from it",
                path=snapshot.metadata_uri,
                expected="the time of last access up to which rows are left out, such as 2026-10-01T00:00:00Z",
                found=state,
            )
        return milliseconds(snapshot.metadata_time) - age // timedelta(milliseconds=1)
    if snapshot.metadata_time is not None and age > snapshot.metadata_time:
        raise RequestError(
            "the time is later than the snapshot, so all rows would be left out",
            path=snapshot.metadata_uri,
            expected=f"a time before {format_time(milliseconds(snapshot.metadata_time))}",
            found=f"{state}={age.isoformat()}",
        )
    return milliseconds(age)
