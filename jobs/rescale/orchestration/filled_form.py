"""What a filled form stands for: the values as they were meant, the request, and what is refused at once.

What takes two values, or a look at the snapshot, no schema can refuse; the first task does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rescale.errors import RequestError
from rescale.orchestration.form import rescale_form
from rescale.orchestration.key_functions import check_key_functions
from rescale.planning.asked.request import Files, Format, Request, make_request, parse_uids
from rescale.planning.asked.surgery_words import parse_surgery
from rescale.planning.values.proof import Proof


def lines_of(params: Mapping[str, Any], name: str) -> list[str]:
    """The lines of a field that are not empty."""
    return [line.strip() for line in params[name] or [] if line.strip()]


def stripped(params: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a filled form without the spaces around them; a text field that has nothing else is empty.

    `RequestError` for two names that differ in spaces only: one of their values would be lost.
    """
    trimmed = {name: _trimmed(value) for name, value in params.items()}
    return {name: None if value == "" else value for name, value in trimmed.items()}


def _trimmed(value: Any) -> Any:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, Mapping):
        if len({name.strip() for name in value}) < len(value):
            raise RequestError(
                "a name stands twice in one field of the form",
                expected="each once, with or without spaces around it",
                found=", ".join(map(repr, value)),
            )
        return {name.strip(): _trimmed(one) for name, one in value.items()}
    return [_trimmed(one) for one in value] if isinstance(value, list) else value


def refuse_unknown_fields(params: Mapping[str, Any], form: Mapping[str, Any]) -> None:
    """`RequestError` for a value that was given and has no field, which Airflow lets pass."""
    if unknown := sorted(params.keys() - form.keys()):
        raise RequestError("the form has no such field", expected=f"only {', '.join(form)}", found=", ".join(unknown))


def refuse_silent_copy(params: Mapping[str, Any]) -> None:
    """`RequestError` unless a change is asked for, or a copy, and no two of them at odds."""
    shape = any(params[name] for name in ("parallelism", "max_parallelism", "operators"))
    if params["same_shape"] and shape:
        raise RequestError(
            "the form asks for the same shape and for another one",
            advice=f'leave the numbers empty, or switch "{_title("same_shape")}" off',
        )
    lists = ("renames", "drops", "state_drops", "kafka_topics", "kafka_sources")
    other = params["format"] != Format.KEEP or any(lines_of(params, name) for name in lists)
    other = other or bool((params["kafka_offsets"] or "").strip())
    if not shape and not other and not params["same_shape"]:
        raise RequestError(
            "the form asks for no change",
            expected=f'"{_title("parallelism")}", "{_title("max_parallelism")}", "{_title("operators")}", '
            f'"{_title("renames")}", "{_title("drops")}", "{_title("state_drops")}", "{_title("kafka_offsets")}", '
            f'"{_title("kafka_topics")}", "{_title("kafka_sources")}" or "{_title("format")}"',
            found="none of them",
            advice=f'if you want a copy as it is, say "{_title("same_shape")}"',
        )


def refuse_unasked_drops(params: Mapping[str, Any]) -> None:
    """`RequestError` if state would be lost by a run that nobody approves; where nothing is carried out, it may be."""
    drops = [*lines_of(params, "drops"), *lines_of(params, "state_drops")]
    if drops and not params.get("require_approval", True):
        raise RequestError(
            "operators or states are dropped, and nobody would be asked whether they may be lost",
            expected=f'"{_title("require_approval")}"',
            found=", ".join(drops),
            advice=f'switch "{_title("require_approval")}" on',
        )


def _title(name: str) -> str:
    return str(rescale_form()[name].schema["title"])


def request_of(params: Mapping[str, Any], known: Mapping[str, Any] | None = None) -> Request:
    """The request of a filled form; `RequestError` names what makes no sense. What is `known` of places goes first."""
    params = stripped(params)
    key_hashes = lines_of(params, "key_hashes")
    check_key_functions(name.rpartition("=")[2] for name in key_hashes)
    places = {**params, **(known or {})}
    return make_request(
        places["source"],
        places["target"],
        _numbers(params, "parallelism"),
        max_parallelism=_numbers(params, "max_parallelism"),
        key_hash=key_hashes,
        format=Format(params["format"]),
        files=Files(params["files"]),
        uids=parse_uids(lines_of(params, "operator_names")),
        allow_prefixes=lines_of(params, "allowed_prefixes"),
        surgery=parse_surgery(
            renames=lines_of(params, "renames"),
            drops=lines_of(params, "drops"),
            state_drops=lines_of(params, "state_drops"),
            kafka_offsets=params["kafka_offsets"] or "",
            kafka_topics=lines_of(params, "kafka_topics"),
            kafka_sources=lines_of(params, "kafka_sources"),
        ),
    )


def proof_of(params: Mapping[str, Any]) -> Proof:
    """How deep the result of a filled form is to be compared with its source."""
    return Proof(stripped(params)["proof"])


def understood(request: Request) -> str:
    """In a sentence, what a form was taken to ask for."""
    return f"asked for: {asked(request)}"


def asked(request: Request) -> str:
    """The shape, the names and the format of a request, in words."""
    numbers = (("parallelism", request.parallelism), ("max parallelism", request.max_parallelism))
    surgery, kafka = request.surgery, request.surgery.kafka
    said = [f"{what} {of['']}" if "" in of else f"{what} as it is" for what, of in numbers]
    said += [f"{what} {number} for {uid}" for what, of in numbers for uid, number in of.items() if uid]
    said += [f"{old} renamed to {new}" for old, new in surgery.renames.items()]
    said += [f"{operator} dropped" for operator in surgery.drops]
    said += [f"{old} becomes a KafkaSource{f' {new}' if new else ''}" for old, new in kafka.sources.items()]
    said += [f"the topic {old} as {new}" for old, new in kafka.topics.items()]
    said += [f"{len(kafka.offsets)} rows of Kafka offsets"] if kafka.offsets else []
    said += [f"state {state} dropped" for state in surgery.state_drops]
    files = "; RocksDB's files are referred to" if request.files is Files.REFER else ""
    return f"{', '.join(said)}; format {request.format.value}{files}"


def _numbers(params: Mapping[str, Any], name: str) -> list[str]:
    """As words of a command line: the number for all, if there is one, and those of single operators."""
    of_all = params[name]
    single = [f"{uid}={shape[name]}" for uid, shape in (params["operators"] or {}).items() if name in shape]
    return [*single, *([] if of_all is None else [str(of_all)])]
