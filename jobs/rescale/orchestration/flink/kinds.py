"""The three ways in which a job is started from a snapshot, as values that travel from task to task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from rescale.errors import RequestError


class Print(msgspec.Struct, frozen=True, tag="print", tag_field="kind"):
    """Somebody starts it: the command is shown."""


class RunJar(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="jar", tag_field="kind"):
    """Flink runs a jar that was uploaded to a session cluster (`/jars`).

    `flink` is an address or the id of an Airflow connection, `jar` the jar's id or its file name, `entry_class` the
    class with `main` (None: the one that the jar names), `configuration` further options of Flink for the job.
    """

    flink: str
    jar: str
    entry_class: str | None = None
    arguments: tuple[str, ...] = ()
    configuration: dict[str, str] = {}


class PatchDeployment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="deployment", tag_field="kind"):
    """Flink's Kubernetes operator starts it: a `FlinkDeployment` in application mode is patched.

    `connection` is the id of an Airflow connection to Kubernetes; None: what the worker itself may do.
    """

    namespace: str
    name: str
    connection: str | None = None


HandOver = Print | RunJar | PatchDeployment


def hand_over_of(document: Mapping[str, Any]) -> HandOver:
    """The mirror of `msgspec.to_builtins`; `RequestError` says which field is wrong."""
    try:
        hand_over: HandOver = msgspec.convert(document, HandOver)
    except msgspec.ValidationError as error:
        raise RequestError("this is no way to hand a job over", expected=error, found=dict(document)) from None
    return hand_over
