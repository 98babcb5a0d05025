"""The form of a running job's rescale: instead of a source, it names the job, and how to stop and start it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param

from rescale.airflow.forms.filled_form import lines_of
from rescale.airflow.forms.form import Form, choice_field, line_field, lines_field, rescale_form
from rescale.airflow.forms.live_form import live_fields
from rescale.airflow.hand_overs import RESOURCE_PATTERN, HandOver, PatchDeployment, Print, RunJar
from rescale.flink_rest.client import SavepointFormat, StopMode
from rescale.options.rows import PLACE_PATTERN
from rescale.text.errors import RequestError

if TYPE_CHECKING:
    from rescale.planning.request.request import Request

_STARTING_SECTION = "Starting it again"


class HandOverKind(StrEnum):
    """Way to start the job from the result, as the form names it."""

    PRINT = "print"
    JAR = "jar"
    DEPLOYMENT = "deployment"


_LABEL_BY_STOP_MODE = {
    StopMode.RUN_ON: "run on: only take its savepoint",
    StopMode.STOP: "stop with savepoint",
    StopMode.CANCEL: "savepoint, then cancel",
    StopMode.CHECKPOINT: "checkpoint, then cancel: no savepoint is written",
}
_LABEL_BY_FORMAT = {
    SavepointFormat.CANONICAL: "canonical: can be rescaled to every shape and format",
    SavepointFormat.NATIVE: "native: RocksDB's files as they are",
}
_LABEL_BY_KIND = {
    HandOverKind.PRINT: "print: print the command",
    HandOverKind.JAR: "jar: run an uploaded jar",
    HandOverKind.DEPLOYMENT: "deployment: patch a FlinkDeployment",
}
_NO_KIND_LABEL = "by the fields below: run the jar, or patch the FlinkDeployment, or else print the command"


def job_form() -> Form:
    """Return the Params of a running job's rescale, in the order of the form."""
    rescale_fields = rescale_form()
    del rescale_fields["source"]
    return {**_job_fields(), **_hand_over_fields(), **rescale_fields, **live_fields(), **_starting_fields()}


def _job_fields() -> Form:
    return {
        "flink": Param(
            type="string",
            pattern="^[^@]+$",  # refuses passwords in an address, which Airflow would store with the run
            title="Flink",
            description_md="The address of Flink's REST API, such as `http://jobmanager:8081`, or the id of an Airflow "
            "connection of type http. The connection may hold login and password, or only a password as a token.",
        ),
        "job": Param(
            type="string",
            minLength=1,
            title="Job",
            description_md="The name of a running job, if it is unique, or its id, which changes with every start.",
        ),
        "savepoints": line_field(
            pattern=PLACE_PATTERN,
            title="Savepoints",
            description_md="The directory in which Flink writes the savepoint. Flink and the workers need access. "
            "Empty if no savepoint is written.",
        ),
        "savepoint_format": choice_field(
            _LABEL_BY_FORMAT,
            title="Format of the savepoint",
            description_md="Flink takes a native savepoint quickly, and RocksDB opens the result without a conversion. "
            "But a native savepoint of a job with RocksDB lacks timers that are on the heap. So the run fails before "
            "it stops the job, unless the job's latest checkpoint shows that there are no such timers. A job with "
            "asynchronous state needs the native format.",
        ),
        "taking": choice_field(
            _LABEL_BY_STOP_MODE,
            title="What becomes of the job",
            description_md="A stopped or cancelled job is started from the result as *Hand over* says. If anything "
            "fails, or the plan is rejected, it is started again from its savepoint. A job with a `FlinkKafkaConsumer` "
            'loses its offsets if it is stopped with a savepoint: cancel it instead. With "checkpoint, then cancel", '
            "the job's last checkpoint is the source, which Flink must keep on cancellation; the records after it are "
            "processed again, as after a failure. A job that runs on is taken back to its savepoint when it is started "
            "from the result: it processes all later records again, and a sink that remembers ids of checkpoints (such "
            "as Iceberg's) may skip commits.",
        ),
    }


def _hand_over_fields() -> Form:
    """Return the fields that choose the hand-over. They are not folded: a run that stops a job needs them."""
    return {
        "hand_over": Param(
            None,
            type=["null", "string"],
            enum=[None, *map(str, HandOverKind)],
            values_display={"null": _NO_KIND_LABEL, **{kind.value: label for kind, label in _LABEL_BY_KIND.items()}},
            title="Hand over",
            description_md="How to start the job from the result, or again if the rescale fails. The parallelism of "
            "single operators must be set in the job's code.",
        ),
        "jar": line_field(
            title="Jar",
            description_md="To run a jar: the file name of an uploaded jar (the last one of that name), or its id. "
            "Without a persistent `web.upload.dir`, Flink loses uploaded jars when the JobManager ends.",
        ),
        "deployment": line_field(
            pattern=RESOURCE_PATTERN,
            title="FlinkDeployment",
            description_md="To patch a FlinkDeployment: `namespace/name`; a FlinkSessionJob: "
            "`flinksessionjob/namespace/name`.",
        ),
    }


def _starting_fields() -> Form:
    """Return the fields that some hand-overs need."""
    return {
        "entry_class": line_field(
            title="Entry class",
            section=_STARTING_SECTION,
            description_md="To run a jar: the class with `main`. Empty: the class that the jar's manifest names.",
        ),
        "arguments": lines_field(
            title="Arguments",
            section=_STARTING_SECTION,
            description_md="To run a jar: the arguments of the program, one per line. Those of the running job are not "
            "taken over. No secrets.",
        ),
        "flink_options": Param(
            {},
            type=["object", "null"],
            additionalProperties={"type": "string"},
            title="Options of Flink",
            section=_STARTING_SECTION,
            description_md='To run a jar: Flink options for the job, such as `{"state.backend.type": "rocksdb"}`. '
            "Options with which the running job was started are not taken over. No secrets.",
        ),
        "kubernetes_connection": line_field(
            title="Connection to Kubernetes",
            section=_STARTING_SECTION,
            description_md="To patch a FlinkDeployment or a FlinkSessionJob: the id of an Airflow connection. "
            "Empty: the worker's own access.",
        ),
    }


def _kind_of(params: Mapping[str, Any]) -> HandOverKind:
    """Return the hand-over that the form chooses; without a choice, the one whose field is filled in, or else `PRINT`.

    Raises `RequestError` if the fields of both a jar and a FlinkDeployment are filled in.
    """
    if params["hand_over"]:
        return HandOverKind(params["hand_over"])
    filled_kinds = [kind for kind in (HandOverKind.JAR, HandOverKind.DEPLOYMENT) if params[kind.value]]
    if len(filled_kinds) > 1:
        raise RequestError(
            "the form names both a jar and a FlinkDeployment to start the job",
            option='"Hand over"',
            expected='"Jar" or "FlinkDeployment"',
            found=f"{params['jar']} and {params['deployment']}",
            advice='clear one of the two fields, or choose under "Hand over"',
        )
    return filled_kinds[0] if filled_kinds else HandOverKind.PRINT


def hand_over_of(params: Mapping[str, Any]) -> HandOver:
    """Return the hand-over of a filled form. Raises `RequestError` if a field is missing."""
    kind = _kind_of(params)
    if kind is HandOverKind.JAR:
        return RunJar(
            params["flink"],
            _required_value(params, "jar", kind),
            params["entry_class"],
            tuple(lines_of(params, "arguments")),
            params["flink_options"] or {},
        )
    if kind is HandOverKind.DEPLOYMENT:
        return PatchDeployment.parse(_required_value(params, "deployment", kind), params["kubernetes_connection"])
    return Print()


def stop_mode_of(params: Mapping[str, Any], hand_over: HandOver) -> StopMode:
    """Return what becomes of the job: how it ends, or that it runs on.

    Raises `RequestError` if the old job would run on beside the new one.
    """
    taking = StopMode(params["taking"])
    if taking is StopMode.RUN_ON and not isinstance(hand_over, Print):
        raise RequestError(
            "the job would run twice: the old one runs on while a new one starts from the result",
            option='"What becomes of the job"',
            expected=f"a job that ends, or the hand-over {HandOverKind.PRINT.value!r}",
            found=f"{taking.value!r} and the hand-over {_kind_of(params).value!r}",
        )
    return taking


def check_renames(request: Request, hand_over: HandOver) -> None:
    """Raise `RequestError` if operators or topics are renamed or converted and the run would start the job.

    The same program cannot restore both the savepoint and the result.
    """
    source_by_old_name = {old: f"a KafkaSource {new}".rstrip() for old, new in request.surgery.kafka.sources.items()}
    new_name_by_old_name = {**request.surgery.renames, **request.surgery.kafka.topics, **source_by_old_name}
    if new_name_by_old_name and not isinstance(hand_over, Print):
        raise RequestError(
            "the run would start the job, although operators or topics are renamed: the same program cannot restore "
            "both the result and, if the rescale fails, the old savepoint",
            expected=f"the hand-over {HandOverKind.PRINT.value!r}",
            found=", ".join(f"{old} renamed to {new}" for old, new in new_name_by_old_name.items()),
            advice="choose to print the command, and start the changed program with it",
        )


_TITLE_BY_KIND = {"jar": "Jar", "deployment": "FlinkDeployment"}


def _required_value(params: Mapping[str, Any], field: str, kind: HandOverKind) -> str:
    if not params[field]:
        raise RequestError(
            f"the hand-over {kind.value!r} needs the field {field!r}",
            option=f'"{_TITLE_BY_KIND[field]}"',
            found="nothing",
        )
    return str(params[field])
