"""What a result is declared to have otherwise than its source, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rescale.flink.metadata.handles import DistributionMode
from rescale.names import first_of
from rescale.report.units import counted, human_bytes

DECLARED = "Declared differences"

_SHOWN = 10
"""Partitions that are named; the JSON has all."""


Records = dict[tuple[str, str], int]
"""How many a keyed state had, by the new operator id and the name of the state."""


def declared_lines(surgery: dict[str, Any]) -> list[str]:
    """A sentence for each, of a `Surgery` as JSON values."""
    return list(_lines(surgery, {}))


def first_lines(lines: list[str], most: int) -> list[str]:
    """The first ones, and how many more there are."""
    left = len(lines) - most
    return [*lines[:most], f"{counted(left, 'other')}, in the plan"] if left > 0 else lines


def except_what_is_otherwise(surgery: dict[str, Any]) -> str:
    """How a sentence about all state of a source goes on, with numbers; "" where nothing is dropped or changed."""
    partitions = [one for change in surgery["kafka"] for one in change["partitions"]]
    operators, states = len(surgery["dropped"]), len(surgery["dropped_states"])
    offsets = sum(one["dropped"] for one in partitions)
    changed = sum(one["new_next"] is not None for one in partitions)
    parts = (
        ("dropped", _numbers((operators, "operator"), (states, "state"), (offsets, "Kafka offset"))),
        ("changed", _numbers((changed, "Kafka offset"))),
    )
    said = " and ".join(f"{how} ({numbers})" for how, numbers in parts if numbers)
    return f" except what was {said}" if said else ""


def certified_lines(certificate: dict[str, Any]) -> list[str]:
    """The same of a certificate as JSON values: validation has counted the records of dropped keyed states."""
    records = {
        (proof["operator_id"], state): number
        for proof in certificate["operators"]
        if proof["records"] is not None
        for state, number in proof["records"].get("left_out", {}).items()
    }
    return list(_lines(certificate["surgery"], records))


def _numbers(*of: tuple[int, str]) -> str:
    return ", ".join(counted(number, noun) for number, noun in of if number)


def _lines(surgery: dict[str, Any], records: Records) -> Iterator[str]:
    new_ids = {one["operator_id"]: one["new_operator_id"] for one in surgery["renamed"]}
    for one in surgery["renamed"]:
        new = f"{one['uid']} ({one['new_operator_id']})" if one["uid"] else one["new_operator_id"]
        yield f"{_named(one)} is renamed to {new}"
    for one in surgery["dropped"]:
        states = ", ".join(map(_state, one["states"]))
        yield f"{_named(one)} is dropped: {human_bytes(one['bytes'])} of state are lost{': ' if states else ''}{states}"
    for one in surgery["dropped_states"]:
        number = records.get((new_ids.get(one["operator_id"], one["operator_id"]), one["name"]))
        lost = f"{counted(number, 'record')}, {_lost(one)}," if number is not None else _lost(one)
        yield f"the state {_state(one)} of {_named(one)} is dropped: {lost} are lost"
    for one in surgery["kafka"]:
        yield from _offsets(one)


def _offsets(change: dict[str, Any]) -> Iterator[str]:
    """What changes of the partitions of one source, each kind of change in a line."""
    source = f"{change['label']} ({change['kind']})"
    moved = [_moved(one) for one in change["partitions"] if one["new_next"] is not None]
    dropped = [_partition(one) for one in change["partitions"] if one["dropped"]]
    if change["becomes_source"]:
        yield f"{source} becomes a KafkaSource: its offsets are splits, and all of them in the enumerator's state"
    topics = {one["topic"]: one["new_topic"] for one in change["partitions"] if one["new_topic"] is not None}
    for topic, new in topics.items():
        yield f"{source} has the topic {topic} as {new}"
    if moved:
        yield f"{source} reads {counted(len(moved), 'partition')} from another offset: {first_of(moved, _SHOWN)}"
    if dropped:
        yield f"{source} has no offset any more for {counted(len(dropped), 'partition')}: {first_of(dropped, _SHOWN)}"


def _moved(one: dict[str, Any]) -> str:
    """With the number of records between the offsets, which are no more than that: some may be gone, or no records."""
    before, after = one["next"], one["new_next"]
    what = f"{_partition(one)} from {after} instead of {before}"
    if not isinstance(before, int) or not isinstance(after, int):
        return what
    return f"{what} ({abs(after - before):,} {'skipped' if after > before else 'once more'})"


def _partition(one: dict[str, Any]) -> str:
    return f"{one['topic']}-{one['partition']}"


def _named(one: dict[str, Any]) -> str:
    """What an operator was called, with its id."""
    old: str = one["label"]
    return old if one["operator_id"] in old else f"{old} ({one['operator_id']})"


def _lost(state: dict[str, Any]) -> str:
    """How much a dropped state takes, as far as it is known."""
    if state["bytes"] is not None:
        return human_bytes(state["bytes"])
    whole = f"{human_bytes(state['of_bytes'])} of keyed state"
    if state["stored_bytes"] is None:
        return f"some of {whole}"
    return f"{human_bytes(state['stored_bytes'])} in files of RocksDB, out of {whole}"


def _state(state: dict[str, Any]) -> str:
    if state["elements"] is None:
        return f"{state['name']} ({state['type']})"
    words = ("copy", "copies") if DistributionMode.BROADCAST.name in state["type"] else ("element", "elements")
    return f"{state['name']} ({state['type']}, {counted(state['elements'], *words)})"
