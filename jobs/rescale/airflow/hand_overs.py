"""Hand-overs: the three ways to start a job from a snapshot, as values that are passed from task to task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from rescale.flink.start import Start
from rescale.text.errors import RequestError

_SESSION_JOB_PREFIX = "flinksessionjob/"

RESOURCE_PATTERN = f"^({_SESSION_JOB_PREFIX})?[^/]+/[^/]+$"
"""Pattern of the name of a resource in forms: `namespace/name` of a FlinkDeployment, or of a FlinkSessionJob."""


class Print(msgspec.Struct, frozen=True, tag="print", tag_field="kind"):
    """Print the command; a user starts the job by hand."""


class RunJar(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="jar", tag_field="kind"):
    """Run a jar that was uploaded to a session cluster (`/jars`).

    `flink` is an address or the id of an Airflow connection, `jar` the jar's id or its file name. `entry_class` is the
    class with `main`; None for the class that the jar names. `configuration` are further Flink options for the job.
    """

    flink: str
    jar: str
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()
    configuration: dict[str, str] = {}


class PatchDeployment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="deployment", tag_field="kind"):
    """Patch a resource of Flink's Kubernetes operator; the operator then starts the job.

    The resource is a `FlinkDeployment` in application mode, or a `FlinkSessionJob`; both have the patched fields.
    `connection` is the id of an Airflow connection to Kubernetes; None for the worker's own access.
    """

    namespace: str
    name: str
    connection: str | None = None
    resource: Literal["FlinkDeployment", "FlinkSessionJob"] = "FlinkDeployment"

    @staticmethod
    def parse(text: str, connection: str | None) -> PatchDeployment:
        """Return the hand-over to the resource that a form names; `text` matches `RESOURCE_PATTERN`."""
        *session_job, namespace, name = text.split("/")
        return PatchDeployment(namespace, name, connection, "FlinkSessionJob" if session_job else "FlinkDeployment")

    @property
    def full_name(self) -> str:
        """Name of the resource with its namespace."""
        return f"{self.namespace}/{self.name}"

    @property
    def name_in_form(self) -> str:
        """Name of the resource as in forms: `namespace/name` or `flinksessionjob/namespace/name`."""
        return f"{_SESSION_JOB_PREFIX if self.resource == 'FlinkSessionJob' else ''}{self.full_name}"


HandOver = Print | RunJar | PatchDeployment


def hand_over_of(document: Mapping[str, Any]) -> HandOver:
    """Return the hand-over that a document of `msgspec.to_builtins` describes.

    Raises `RequestError` if a field is wrong.
    """
    try:
        hand_over: HandOver = msgspec.convert(document, HandOver)
    except msgspec.ValidationError as error:
        raise RequestError("the hand-over is not valid", expected=error, found=dict(document)) from None
    return hand_over


def start_of_document(document: Any, parallelism: Any) -> Start:
    """Return the start of a job that a document describes, with `parallelism` unless that is None.

    Numbers may be text, as in templates. Raises `RequestError` if a field is wrong, or if there is no snapshot: Flink
    would start the job without state.
    """
    try:
        given_start = Start(**document)
        fields = (*given_start._replace(parallelism=parallelism or given_start.parallelism),)
        if not given_start.snapshot:
            raise RequestError(
                "there is no snapshot to start the job from: the job would start without its state",
                found=repr(given_start.snapshot),
                advice="find out why the task that writes the snapshot has not finished",
            )
        return msgspec.convert(fields, Start, strict=False)
    except (TypeError, msgspec.ValidationError) as error:
        raise RequestError(
            "the argument 'start' does not describe the start of a job",
            expected=f'the fields {", ".join(Start._fields)}, as in output["starting"] ({error})',
            found=document,
        ) from None
