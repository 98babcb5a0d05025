"""Parses the part of a request that changes more than shapes.

It renames, drops and restarts operators, drops states and old rows, and changes Kafka offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rescale.planning.request.ages import Age, parse_ages
from rescale.planning.request.kafka_offsets import (
    NO_KAFKA_REQUEST,
    KafkaRequest,
    parse_offsets,
    parse_sources,
    parse_topics,
)
from rescale.text.errors import RequestError, in_option

Values = Mapping[str, Any]
"""Values by option name: a list of lines, the text of a file (None or "" without one), a choice, or a flag."""


@dataclass(frozen=True)
class SurgeryRequest:
    """A parsed request for surgery, not yet compared with the snapshot.

    `renames` maps operators to their new uids or operator ids, and `drops` names the operators to leave out.
    `state_drops` names single states of other operators, as `UID:NAME`. `restarts` names operators whose finished
    subtasks run again. `ages` maps states, as `UID:STATE`, to the age from which rows are left out.
    """

    renames: dict[str, str] = field(default_factory=dict)
    drops: tuple[str, ...] = ()
    state_drops: tuple[str, ...] = ()
    kafka: KafkaRequest = NO_KAFKA_REQUEST
    restarts: tuple[str, ...] = ()
    ages: dict[str, Age] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.renames or self.drops or self.state_drops or self.kafka or self.restarts or self.ages)


NO_SURGERY_REQUEST = SurgeryRequest()


def surgery_from_options(option_values: Values) -> SurgeryRequest:
    """Return the request for surgery in these option values. Raises `RequestError` for an invalid value."""
    return parse_surgery(
        renames=option_values["rename"],
        drops=option_values["drop"],
        state_drops=option_values["drop-state"],
        kafka_offsets=option_values["kafka-offsets"] or "",
        kafka_topics=option_values["kafka-topic"],
        kafka_sources=option_values["kafka-source"],
        restarts=option_values["restart"],
        ages=option_values["drop-older"],
    )


def parse_surgery(
    *,
    renames: Iterable[str] = (),
    drops: Iterable[str] = (),
    state_drops: Iterable[str] = (),
    kafka_offsets: str = "",
    kafka_topics: Iterable[str] = (),
    kafka_sources: Iterable[str] = (),
    restarts: Iterable[str] = (),
    ages: Iterable[str] = (),
) -> SurgeryRequest:
    """Parse the values of a command line or a form, and return the request for surgery.

    `kafka_offsets` is the content of a file. Raises `RequestError` for the first invalid value.
    """
    with in_option("--kafka-offsets"):
        offsets = parse_offsets(kafka_offsets)
    with in_option("--kafka-topic"):
        topics = parse_topics(kafka_topics)
    with in_option("--kafka-source"):
        sources = parse_sources(kafka_sources)
    with in_option("--rename"):
        new_names = parse_renames(renames)
    with in_option("--drop"):
        dropped_operators = parse_operators(drops, "dropped")
    with in_option("--drop-state"):
        dropped_states = parse_state_drops(state_drops)
    with in_option("--restart"):
        restarted_operators = parse_operators(restarts, "restarted")
    with in_option("--drop-older"):
        parsed_ages = parse_ages(ages)
    kafka = KafkaRequest(offsets, topics, sources)
    return SurgeryRequest(new_names, dropped_operators, dropped_states, kafka, restarted_operators, parsed_ages)


def parse_renames(option_values: Iterable[str]) -> dict[str, str]:
    """Parse `OLD=NEW` into a mapping from the operator to its new uid or operator id, which may contain `=`."""
    renames: dict[str, str] = {}
    for value in option_values:
        old, _, new = value.partition("=")
        if not old or not new:
            raise RequestError(
                f"not a new name of an operator: {value!r}",
                expected="OLD=NEW, each a uid or an operator id",
                found=value,
                advice="name an operator by its id if its uid contains a =" if value.count("=") > 1 else None,
            )
        if old in renames:
            raise RequestError(f"the new name of operator {old!r} is given twice", found=value)
        renames[old] = new
    return renames


def parse_operators(option_values: Iterable[str], action: str) -> tuple[str, ...]:
    """Return names of operators. Raises `RequestError` if a name is empty or given twice.

    `action` is "dropped" or "restarted", for errors.
    """
    operators: dict[str, None] = {}
    for value in option_values:
        if not value:
            raise RequestError(
                f"an operator to be {action} has no name", expected="a uid or an operator id", found=value
            )
        if value in operators:
            raise RequestError(f"operator {value!r} is {action} twice", found=value)
        operators[value] = None
    return tuple(operators)


def parse_state_drops(option_values: Iterable[str]) -> tuple[str, ...]:
    """Return `UID:NAME` values. Raises `RequestError` if one is malformed or given twice.

    NAME may be empty, and both may contain colons, so only a snapshot tells which state is meant.
    """
    states: dict[str, None] = {}
    for value in option_values:
        if not value.strip(":") or ":" not in value[1:]:
            raise RequestError(f"not a state of an operator: {value!r}", expected="UID:NAME", found=value)
        if value in states:
            raise RequestError(f"the state {value!r} is dropped twice", found=value)
        states[value] = None
    return tuple(states)
