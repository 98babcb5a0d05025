"""Rows of keyed states with a TTL, read record by record, and their times of last access."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping

from rescale.execution.sources.record_sources import SourceReader, sources_of
from rescale.flink.operator_id import operator_id_of_uid
from rescale.snapshot.reading.opening import open_snapshot

Rows = dict[str, dict[bytes, bytes]]
"""Values of an operator by state, and by composite key without its key group."""

VALUES, TEXTS, MAPS = "last-for-a-while", "history-for-a-while", "kinds-for-a-while"
"""States of the operator `states` of the scenario `everything`."""

RECENT = "recent"
"""State of the operator `visits` of the scenario `churn`; elements of lists are texts of ASCII characters."""

_LISTS = (TEXTS, RECENT)


def rows_of(directory: str, uid: str) -> Rows:
    """Return all rows of the keyed states of an operator."""
    snapshot = open_snapshot(directory)
    (operator,) = (operator for operator in snapshot.operators if operator.operator_id == operator_id_of_uid(uid))
    rows: Rows = defaultdict(dict)
    for holder in operator.record_holders:
        for source in sources_of(holder, operator.max_parallelism):
            names, _ = source.states
            for records in SourceReader(snapshot.contents).batches(source):
                data = records.data.tobytes()
                columns = (records.state_ids.tolist(), records.key_starts.tolist(), records.key_ends.tolist())
                for state, start, limit, end in zip(*columns, records.ends.tolist(), strict=True):
                    assert data[start:limit] not in rows[names[state]]
                    rows[names[state]][data[start:limit]] = data[limit + 4 : end]
    return dict(rows)


def elements_of(value: bytes) -> list[bytes]:
    """Return the elements in the value of a list of ASCII texts, each with its time in front."""
    elements = []
    while value:
        size = 8 + value[8]
        elements.append(value[:size])
        value = value[size + 1 :]
    return elements


def time_of(value: bytes) -> int:
    return int(struct.unpack(">q", value[:8])[0])


def times_in(rows: Rows) -> list[int]:
    """Return all times of last access in the states with a TTL, sorted."""
    times = [time_of(value) for value in rows.get(VALUES, {}).values()]
    times += [time_of(value[1:]) for value in rows.get(MAPS, {}).values()]
    lists = [value for state in _LISTS for value in rows.get(state, {}).values()]
    return sorted([*times, *(time_of(element) for value in lists for element in elements_of(value))])


def without_old(rows: Rows, until_by_state: Mapping[str, int]) -> Rows:
    """Return the rows that are younger than the time of their state in `until_by_state`; lists lose old elements."""
    younger_rows = {state: dict(values) for state, values in rows.items()}
    for state, until in until_by_state.items():
        if state in _LISTS:
            lists = {key: [e for e in elements_of(value) if time_of(e) > until] for key, value in rows[state].items()}
            younger_rows[state] = {key: b",".join(elements) for key, elements in lists.items() if elements}
        else:
            flag = int(state == MAPS)
            younger_rows[state] = {key: value for key, value in rows[state].items() if time_of(value[flag:]) > until}
    return {state: values for state, values in younger_rows.items() if values}
