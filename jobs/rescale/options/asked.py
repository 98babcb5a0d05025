"""Requests from the values of options, which come from a command line or a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rescale.planning.request.kafka_offsets import parse_offsets
from rescale.planning.request.request import Request, make_request, parse_uids
from rescale.planning.request.result_files import Files, Format
from rescale.planning.request.surgery_request import SurgeryRequest, parse_surgery
from rescale.text.advice import Advice, command, mention
from rescale.text.errors import RequestError

Values = Mapping[str, Any]
"""Values by option name: a list of lines, the text of a file (None or "" without one), a choice, or a flag."""


def request_of_values(source: str, target: str, values: Values) -> Request:
    """Return the request with these values. Raises `RequestError` for a wrong value."""
    return make_request(
        source,
        target,
        values["parallelism"],
        max_parallelism=values["max-parallelism"],
        key_hash=values["key-hash"],
        format=Format(values["format"]),
        files=Files(values["files"]),
        uids=uids_of(values),
        allow_prefixes=values["allow-prefix"],
        surgery=surgery_of(values),
        moved=values["moved"],
    )


def surgery_of(values: Values) -> SurgeryRequest:
    """Return the surgery with these values: all changes besides the shape. Raises `RequestError` for a wrong value."""
    return parse_surgery(
        renames=values["rename"],
        drops=values["drop"],
        state_drops=values["drop-state"],
        kafka_offsets=values["kafka-offsets"] or "",
        kafka_topics=values["kafka-topic"],
        kafka_sources=values["kafka-source"],
        restarts=values["restart"],
        old_rows=values["drop-older"],
    )


def uids_of(values: Values) -> tuple[tuple[str, str], ...]:
    """Return (operator id, name) for every line of the list of uids."""
    return parse_uids((values["uids"] or "").splitlines())


def refuse_no_offsets(text: str, path: str) -> None:
    """Raise `RequestError` if a file of Kafka offsets is not valid, or names no partition."""
    if not parse_offsets(text):
        raise RequestError(
            "the file of Kafka offsets names no partition",
            path=path,
            expected="a row of topic, partition and offset for each partition whose offset changes",
            advice=Advice(
                "leave ",
                mention("kafka-offsets"),
                " out to keep all offsets; ",
                command("inspect", "SOURCE --kafka-offsets csv"),
                " prints the current ones",
            ),
        )
