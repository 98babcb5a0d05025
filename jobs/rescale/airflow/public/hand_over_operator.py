"""An operator that starts a job from the result of a rescale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from airflow.sdk import Context

from rescale.airflow.flink.operators import HandOverJob
from rescale.airflow.flink.questions import Answer
from rescale.airflow.forms.filled_form import trimmed_values
from rescale.airflow.forms.given_values import check_values, tuple_as_list
from rescale.airflow.forms.job_form import hand_over_of, job_form
from rescale.airflow.hand_overs import RunJar
from rescale.airflow.public.task_name import task_name
from rescale.airflow.steps.retries import task_errors


class HandOverOperator(HandOverJob):
    """Operator that starts a job from the result of a rescale, and waits without a worker until all of its tasks run.

    It runs an uploaded `jar` on a session cluster, or patches a `FlinkDeployment`, or else prints the command that
    starts the job. A task that is tried again finds the job that an earlier try started. The operator does not look for
    the job that the savepoint was taken from: if that job still runs, both jobs do the same work.

    The fields of its output depend on the hand-over. A jar: `job` (the job's id), `name`, `parallelism` and
    `restored_from`. A FlinkDeployment: `deployment` and `nonce`. A printed command: `start`, the command.

    :param start: how the job is started: `output["starting"]` of `RescaleOperator` or of a task group.
    :param flink: to run a jar: address of Flink's REST API, or id of an Airflow connection of type http.
    :param jar: to run a jar: file name of an uploaded jar, or its id.
    :param entry_class: to run a jar: class with `main`; None for the class that the jar names.
    :param program_arguments: to run a jar: arguments of the program.
    :param flink_options: to run a jar: options of Flink for the job.
    :param deployment: to patch a FlinkDeployment: `namespace/name`; a FlinkSessionJob:
        `flinksessionjob/namespace/name`.
    :param kubernetes_connection: to patch a FlinkDeployment: id of an Airflow connection; None for the worker's access.
    :param parallelism: default parallelism of the job; None for the parallelism in `start`.
    """

    template_fields: Sequence[str] = (
        *("start", "flink", "jar", "entry_class", "program_arguments", "flink_options", "deployment"),
        *("kubernetes_connection", "parallelism"),
    )

    def __init__(
        self,
        *,
        start: Mapping[str, Any],
        flink: str | None = None,
        jar: str | None = None,
        entry_class: str | None = None,
        program_arguments: Sequence[str] = (),
        flink_options: Mapping[str, str] | None = None,
        deployment: str | None = None,
        kubernetes_connection: str | None = None,
        parallelism: int | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(start=start, parallelism=parallelism, **arguments)
        self.flink = flink
        self.jar = jar
        self.entry_class = entry_class
        self.program_arguments = program_arguments
        self.flink_options = flink_options
        self.deployment = deployment
        self.kubernetes_connection = kubernetes_connection

    def execute(self, context: Context) -> Answer:
        with task_errors():
            names = ("jar", "entry_class", "program_arguments", "flink_options", "deployment", "kubernetes_connection")
            arguments = trimmed_values({name: getattr(self, name) for name in names})
            arguments["program_arguments"] = tuple_as_list(arguments["program_arguments"])
            fields = job_form()
            check_values(arguments, {**fields, "program_arguments": fields["arguments"]})
            form_values = {
                **arguments,
                "hand_over": None,
                "flink": self.flink,
                "arguments": arguments["program_arguments"],
            }
            hand_over = hand_over_of(form_values)
            if isinstance(hand_over, RunJar):  # arguments of code may be empty or have spaces, unlike lines of a form
                hand_over = msgspec.structs.replace(hand_over, arguments=tuple(self.program_arguments or ()))
            self.hand_over = msgspec.to_builtins(hand_over)
        return super().execute(context)

    def _run_name(self, context: Context) -> str:
        return task_name(context)
