"""The form of a running job's rescale: in the place of a source, the job and how it is stopped and started."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from airflow.sdk import Param

from rescale.errors import RequestError
from rescale.orchestration.filled_form import lines_of
from rescale.orchestration.flink.kinds import HandOver, PatchDeployment, Print, RunJar
from rescale.orchestration.flink.rest import SavepointFormat, Taking
from rescale.orchestration.form import PLACE, Form, choice, lines, rescale_form
from rescale.planning.asked.request import Request

_STARTING = "Starting it again"


class Kind(StrEnum):
    """How the job is handed over."""

    PRINT = "print"
    JAR = "jar"
    DEPLOYMENT = "deployment"


_TAKING_SHOWN = {
    Taking.RUN_ON: "run on: only its savepoint is taken",
    Taking.STOP: "stop with savepoint",
    Taking.CANCEL: "savepoint, then cancel",
}
_FORMAT_SHOWN = {
    SavepointFormat.CANONICAL: "canonical: every shape and format can be had from it",
    SavepointFormat.NATIVE: "native: RocksDB's files as they are",
}
_KIND_SHOWN = {
    Kind.PRINT: "print: the command is shown",
    Kind.JAR: "jar: an uploaded jar is run",
    Kind.DEPLOYMENT: "deployment: a FlinkDeployment is patched",
}


def job_form() -> Form:
    """The Params, in the order of the form."""
    of_a_rescale = rescale_form()
    del of_a_rescale["source"]
    return {**_job_fields(), **of_a_rescale, **_starting_fields()}


def _job_fields() -> Form:
    return {
        "flink": Param(
            type="string",
            pattern="^[^@]+$",  # an address with a password in it would stay with the run
            title="Flink",
            description_md="The address of its REST API, such as `http://jobmanager:8081`, or the id of an Airflow "
            "connection of type http, which may hold a login and a password; a password alone is a token.",
        ),
        "job": Param(
            type="string",
            minLength=1,
            title="Job",
            description_md="The name of a running job if no other that runs has it, or its id, which is another one "
            "after every start.",
        ),
        "savepoints": Param(
            type="string",
            pattern=PLACE,
            title="Savepoints",
            description_md="The directory below which Flink puts the savepoint of the run. Flink and workers must "
            "reach it.",
        ),
        "savepoint_format": choice(
            _FORMAT_SHOWN,
            title="Format of the savepoint",
            description_md="A native one is quickly taken, and RocksDB opens what is made of it as it is. It lacks "
            "timers that are kept on the heap: unless the job's latest checkpoint shows that there are none, it is "
            "refused before anything is stopped. A job with asynchronous state needs a native one.",
        ),
        "taking": choice(
            _TAKING_SHOWN,
            title="What becomes of the job",
            description_md="A job that is stopped or cancelled is handed over below; if anything fails, or the plan is "
            "rejected, it is started again from its savepoint. A job with a `FlinkKafkaConsumer` loses its offsets "
            "when it is stopped with a savepoint: cancel it.",
        ),
    }


def _starting_fields() -> Form:
    return {
        "hand_over": choice(
            _KIND_SHOWN,
            title="Hand over",
            section=_STARTING,
            description_md="How the job is started from the result, and started again if there is none. A parallelism "
            "of single operators must stand in the job's code.",
        ),
        "jar": Param(
            None,
            type=["null", "string"],
            title="Jar",
            section=_STARTING,
            description_md="To run a jar: the file name of one that was uploaded to Flink (of several the last one is "
            "taken), or its id. Without a `web.upload.dir` that stays, it goes with the JobManager.",
        ),
        "entry_class": Param(
            None,
            type=["null", "string"],
            title="Entry class",
            section=_STARTING,
            description_md="To run a jar: the class with `main`. Empty: the one that the jar names.",
        ),
        "arguments": lines(
            title="Arguments",
            section=_STARTING,
            description_md="To run a jar: the arguments of the program, one a line. No secrets.",
        ),
        "flink_options": Param(
            {},
            type=["object", "null"],
            additionalProperties={"type": "string"},
            title="Options of Flink",
            section=_STARTING,
            description_md='To run a jar: options for the job, such as `{"state.backend.type": "rocksdb"}`. '
            "No secrets.",
        ),
        "deployment": Param(
            None,
            type=["null", "string"],
            pattern="^[^/]+/[^/]+$",
            title="FlinkDeployment",
            section=_STARTING,
            description_md="To patch one: `namespace/name`.",
        ),
        "kubernetes_connection": Param(
            None,
            type=["null", "string"],
            title="Connection to Kubernetes",
            section=_STARTING,
            description_md="To patch a FlinkDeployment: the id of an Airflow connection. "
            "Empty: what the worker may do.",
        ),
    }


def hand_over_of(params: Mapping[str, Any]) -> HandOver:
    """The hand-over of a filled form; `RequestError` if it lacks something."""
    kind = Kind(params["hand_over"])
    if kind is Kind.JAR:
        return RunJar(
            params["flink"],
            _given(params, "jar", kind),
            params["entry_class"],
            tuple(lines_of(params, "arguments")),
            params["flink_options"] or {},
        )
    if kind is Kind.DEPLOYMENT:
        namespace, _, name = _given(params, "deployment", kind).partition("/")
        return PatchDeployment(namespace, name, params["kubernetes_connection"])
    return Print()


def taking_of(params: Mapping[str, Any], hand_over: HandOver) -> Taking:
    """What becomes of the job; `RequestError` if it would run on beside the one that is started."""
    taking = Taking(params["taking"])
    if taking is Taking.RUN_ON and not isinstance(hand_over, Print):
        raise RequestError(
            "the job would run twice: it runs on, and is started from the result",
            expected=f"{Taking.STOP.value!r} or {Taking.CANCEL.value!r}, or the hand-over {Kind.PRINT.value!r}",
            found=f"{taking.value!r} and the hand-over {params['hand_over']!r}",
        )
    return taking


def check_renames(request: Request, hand_over: HandOver) -> None:
    """`RequestError` if operators or topics get other names, or become others, and the run would start the job.

    One program has only one of them.
    """
    sources = {old: f"a KafkaSource {new}".rstrip() for old, new in request.surgery.kafka.sources.items()}
    renamed = {**request.surgery.renames, **request.surgery.kafka.topics, **sources}
    if renamed and not isinstance(hand_over, Print):
        raise RequestError(
            "operators or topics are renamed, and the run would start the job, from the result or, if anything fails, "
            "from its savepoint: no program finds its state in both",
            expected=f"the hand-over {Kind.PRINT.value!r}",
            found=", ".join(f"{old} renamed to {new}" for old, new in renamed.items()),
            advice="take the command that is printed, and start the changed program with it",
        )


def _given(params: Mapping[str, Any], field: str, kind: Kind) -> str:
    if not params[field]:
        raise RequestError(f"the hand-over {kind.value!r} needs the field {field!r}", found="nothing")
    return str(params[field])
