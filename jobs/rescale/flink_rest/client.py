"""Client for the part of Flink's REST API that a rescale needs: jobs, savepoints, jars.

Faults of the network or the server, and a JobManager that is not yet elected, raise `StoreError`: another try may
succeed. A request that Flink refuses raises `RequestError` with Flink's message.

Flink forgets finished savepoints after `rest.async.store-duration`, and ended jobs after `jobstore.expiration-time`.
Most methods return None for a job or savepoint that Flink does not know. A job or savepoint counts as unknown only if
the answer 404 comes from Flink itself: a misconfigured proxy also answers with 404, although the job may be running.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from rescale.flink.start import MAX_PARALLELISM_OPTION, Start
from rescale.flink_rest.responses import (
    Accepted,
    CheckpointConfig,
    CheckpointDetails,
    CheckpointOperation,
    Checkpoints,
    CompletedCheckpoint,
    ConfigEntry,
    Dashboard,
    JarPlan,
    Jars,
    JobConfig,
    JobExceptions,
    Jobs,
    LatestCheckpoints,
    Metric,
    Overview,
    SavepointOperation,
    cause_messages,
    error_message,
    seconds_of,
)
from rescale.flink_rest.running_job import Job, JobOverview
from rescale.text.errors import RequestError, StoreError

T = TypeVar("T")

_TIMEOUT_SECONDS = 60
"""Timeout of a request in seconds. Starting a jar takes longest, because Flink first runs its `main`."""


ADDRESS_WITHOUT_LOGIN_ADVICE = (
    "name an address that needs no login, such as the address of kubectl port-forward to the JobManager's port 8081"
)
"""Advice for callers that cannot send a login."""


class StopMode(StrEnum):
    """Treatment of the job when its savepoint is taken."""

    RUN_ON = "run on"
    """The job continues; what it does afterwards is not in the savepoint."""

    STOP = "stop"
    """Stop with savepoint: sources end, and sinks commit what they wrote. The job does nothing after the savepoint."""

    CANCEL = "cancel"
    """The job is cancelled when the savepoint is complete; the savepoint holds what sinks have not committed."""

    CHECKPOINT = "checkpoint"
    """No savepoint is taken: the job is cancelled right after a checkpoint; its last retained checkpoint is used."""


class SavepointFormat(StrEnum):
    """Format of a savepoint (`SavepointFormatType`)."""

    CANONICAL = "canonical"
    """The format that is the same for all state backends.

    It holds all timers, and can be rescaled to any parallelism and max parallelism.
    """

    NATIVE = "native"
    """The files of the state backend; those of RocksDB lack the timers that the job keeps on the heap."""


class StateBackend(NamedTuple):
    """State backend of a job: the name of its class, and whether it has a changelog."""

    name: str
    has_changelog: bool


class SavepointProgress(NamedTuple):
    """Progress of a savepoint: its `location` if it is complete, its `failure` if it failed, neither while it runs."""

    location: str | None
    failure: str | None


class CheckpointProgress(NamedTuple):
    """Progress of a triggered checkpoint. Once it `has_ended`, it has a `number`, or a `failure` if it failed."""

    has_ended: bool
    failure: str | None
    number: int | None = None


class PackagedProgram(NamedTuple):
    """A program in a jar of the cluster: the jar's id, the class with `main`, and the arguments.

    `entry_class` is None for the class that the jar names. `options` are further Flink options for the program's job.
    """

    jar_id: str
    entry_class: str | None
    arguments: Sequence[str]
    options: Mapping[str, str]

    def request_fields(self, parallelism: int) -> dict[str, object]:
        """Return the fields that name the program in a request body (`JarRequestBody`)."""
        entry_class = {} if self.entry_class is None else {"entryClass": self.entry_class}
        return {
            **entry_class,
            "programArgsList": list(self.arguments),
            "parallelism": parallelism,
            "flinkConfiguration": dict(self.options),
        }


class Flink:
    """Client for the REST API of a Flink cluster, as a context manager.

    `address` may contain a path, for a proxy. `headers` are sent with every request. `access_advice` is the advice in
    the error if Flink, or a proxy before it, denies access. `transport` are httpx's arguments for certificates and
    proxies (`verify`, `proxy`).
    """

    def __init__(
        self,
        address: str,
        headers: Mapping[str, str] | None = None,
        *,
        access_advice: str = ADDRESS_WITHOUT_LOGIN_ADVICE,
        **transport: Any,
    ) -> None:
        self.address = address
        self._access_advice = access_advice
        self._http = httpx.Client(base_url=address, headers=headers, timeout=_TIMEOUT_SECONDS, **transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def version(self) -> str:
        return self._require("GET", "/overview", Overview).flink_version

    def configuration(self) -> dict[str, str]:
        """Return the options of the JobManager's configuration, which jobs may override."""
        return {entry.key: entry.value for entry in self._require("GET", "/jobmanager/config", list[ConfigEntry])}

    def checkpoint_config(self, job_id: str) -> CheckpointConfig | None:
        """Return how a job makes checkpoints, or None if it makes none (`CheckpointConfigHandler`)."""
        return self._request("GET", f"/jobs/{job_id}/checkpoints/config", CheckpointConfig)

    def last_checkpoint(self, job_id: str) -> CompletedCheckpoint | None:
        """Return the last checkpoint that completed since the job started, with its sizes; None without one."""
        latest_checkpoints = self.latest_checkpoints(job_id)
        return latest_checkpoints.completed if latest_checkpoints is not None else None

    def latest_checkpoints(self, job_id: str) -> LatestCheckpoints | None:
        """Return the latest checkpoint of each kind, or None if Flink does not know the job.

        The answer may be `answer_cache_seconds` old.
        """
        statistics = self.checkpoints(job_id)
        return None if statistics is None else statistics.latest or LatestCheckpoints()

    def checkpoints(self, job_id: str) -> Checkpoints | None:
        """Return statistics of a job's checkpoints, or None if Flink does not know the job."""
        return self._request("GET", f"/jobs/{job_id}/checkpoints", Checkpoints)

    def answer_cache_seconds(self) -> float:
        """Return how long Flink caches an answer about checkpoints, in seconds (`web.refresh-interval`).

        The option `rest.cache.checkpoint-statistics.timeout` takes precedence.
        """
        dashboard = self._request("GET", "/config", Dashboard) or Dashboard()
        timeout = self.configuration().get("rest.cache.checkpoint-statistics.timeout")
        return dashboard.refresh_interval / 1000 if timeout is None else seconds_of(timeout)

    def jobs(self) -> list[JobOverview]:
        """Return all jobs that Flink knows, ended ones included."""
        return self._require("GET", "/jobs/overview", Jobs).jobs

    def job_overview(self, job_id: str) -> JobOverview | None:
        """Return a job in Flink's overview, whose states are current, or None if Flink does not know the job.

        Raises `StoreError` if Flink leaves a known job out, because the JobMaster does not answer at the moment
        (`Dispatcher.queryJobMastersForInformation`).
        """
        overview = next((job for job in self.jobs() if job.job_id == job_id), None)
        if overview is None and self.job(job_id) is not None:
            raise StoreError("Flink's overview leaves the job out at the moment", path=self.address, found=job_id)
        return overview

    def job(self, job_id: str) -> Job | None:
        """Return the details of a job, or None if Flink does not know the job.

        The states in the details may be seconds old (`web.refresh-interval`); `job_overview` has current ones.
        """
        return self._request("GET", f"/jobs/{job_id}", Job)

    def default_parallelism(self, job_id: str) -> int | None:
        """Return the parallelism of operators that set none themselves, or None if the job has no default."""
        parallelism = self._require("GET", f"/jobs/{job_id}/config", JobConfig).execution_config.job_parallelism
        return parallelism if parallelism > 0 else None

    def failure_messages(self, job_id: str) -> str | None:
        """Return the messages of a job's root exception and its causes, or None if it has not failed."""
        exceptions = self._request("GET", f"/jobs/{job_id}/exceptions?maxExceptions=1", JobExceptions)
        return cause_messages(exceptions.stack_trace) if exceptions is not None and exceptions.stack_trace else None

    def cancel(self, job_id: str) -> None:
        """Cancel a job, unless it has ended or Flink does not know it."""
        self._request("PATCH", f"/jobs/{job_id}?mode=cancel", Accepted, refusal_statuses=(404, 409))

    def trigger_savepoint(
        self, job_id: str, trigger_id: str, directory: str, stop_mode: StopMode, savepoint_format: SavepointFormat
    ) -> None:
        """Begin a savepoint below `directory`, unless a savepoint with this trigger id has begun already.

        `SavepointTriggerHandler` and `StopWithSavepointHandler` take the id from the request.
        """
        if stop_mode is StopMode.STOP:
            path, body = "stop", {"targetDirectory": directory, "drain": False}
        else:
            path, body = "savepoints", {"target-directory": directory, "cancel-job": stop_mode is StopMode.CANCEL}
        body |= {"formatType": savepoint_format.name, "triggerId": trigger_id}
        self._require("POST", f"/jobs/{job_id}/{path}", Accepted, body)

    def savepoint(self, job_id: str, trigger_id: str) -> SavepointProgress | None:
        """Return the progress of a savepoint or stop-with-savepoint, or None if Flink does not know the trigger id."""
        answer = self._request("GET", f"/jobs/{job_id}/savepoints/{trigger_id}", SavepointOperation)
        if answer is None:
            return None
        if answer.operation is None:
            return SavepointProgress(None, None)
        failure = answer.operation.failure
        return SavepointProgress(
            answer.operation.location, cause_messages(failure.stack_trace) if failure is not None else None
        )

    def trigger_checkpoint(self, job_id: str, trigger_id: str, *, is_full: bool = False) -> None:
        """Begin a checkpoint, unless a checkpoint with this trigger id has begun already.

        `CheckpointTriggerHandler` exists since Flink 1.17. With `is_full`, the checkpoint shares no files with earlier
        checkpoints; otherwise, the job's configuration decides whether it does.
        """
        body = {"checkpointType": "FULL" if is_full else "CONFIGURED", "triggerId": trigger_id}
        if self._request("POST", f"/jobs/{job_id}/checkpoints", Accepted, body, refusal_statuses=(404, 405)) is None:
            raise RequestError(
                "Flink cannot make a checkpoint of this job on request",
                path=self.address,
                expected="Flink 1.17 or newer, and a job that runs",
                found=job_id,
            )

    def triggered_checkpoint(self, job_id: str, trigger_id: str) -> CheckpointProgress | None:
        """Return the progress of a checkpoint, or None if Flink does not know the trigger id."""
        answer = self._request("GET", f"/jobs/{job_id}/checkpoints/{trigger_id}", CheckpointOperation)
        if answer is None:
            return None
        if answer.operation is None:
            return CheckpointProgress(False, None)
        failure_answer = answer.operation.failure
        failure_text = cause_messages(failure_answer.stack_trace) if failure_answer is not None else None
        return CheckpointProgress(True, failure_text, answer.operation.number)

    def checkpoint_details(self, job_id: str, number: int) -> CheckpointDetails | None:
        """Return the details of a checkpoint, which may be seconds old; None if Flink does not know the checkpoint."""
        return self._request("GET", f"/jobs/{job_id}/checkpoints/details/{number}", CheckpointDetails)

    def state_backend(self, job_id: str) -> StateBackend | None:
        """Return the state backend of a job, or None if the job has no checkpoints (`CheckpointConfigHandler`)."""
        config = self.checkpoint_config(job_id)
        if config is None:
            return None
        return StateBackend(config.state_backend or "", bool(config.state_changelog_enabled))

    def metric_names(self, job_id: str, vertex_id: str) -> set[str]:
        """Return the names of the metrics of a vertex's running operators; empty until Flink has fetched them."""
        metrics = self._request("GET", f"/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics", list[Metric])
        return {metric.name for metric in metrics or ()}

    def latest_savepoint_uri(self, job_id: str) -> str | None:
        """Return the URI of the last completed savepoint of a job."""
        return self._latest_uri(job_id, "savepoint")

    def latest_checkpoint_uri(self, job_id: str) -> str | None:
        """Return the URI of the last checkpoint that completed since the job started; savepoints do not count."""
        return self._latest_uri(job_id, "completed")

    def restored_snapshot_uri(self, job_id: str) -> str | None:
        """Return the URI of the snapshot that the job was last restored from."""
        return self._latest_uri(job_id, "restored")

    def jar_name_by_id(self) -> dict[str, str]:
        """Return the names of the uploaded jars by id."""
        return {jar.id: jar.name for jar in self._require("GET", "/jars", Jars).files}

    def run_jar(self, program: PackagedProgram, job_id: str, start: Start) -> None:
        """Start the program's job with the id `job_id` from a snapshot. Flink refuses a second job with the same id.

        The job must restore all state of the snapshot (`allowNonRestoredState` is false). It does not own the
        snapshot's files (`RestoreMode.NO_CLAIM`).
        """
        options = dict(program.options)
        if start.max_parallelism is not None:
            options[MAX_PARALLELISM_OPTION] = str(start.max_parallelism)
        body = {
            **program._replace(options=options).request_fields(start.parallelism),
            "jobId": job_id,
            "savepointPath": start.snapshot,
            "allowNonRestoredState": False,
            "restoreMode": "NO_CLAIM",
        }
        self._require("POST", f"/jars/{quote(program.jar_id)}/run", Accepted, body)

    def jar_vertex_descriptions(self, program: PackagedProgram, parallelism: int) -> dict[str, str]:
        """Return the descriptions of the vertices of a jar's job, by id; no job is started (`JarPlanHandler`)."""
        plan = self._require(
            "POST", f"/jars/{quote(program.jar_id)}/plan", JarPlan, program.request_fields(parallelism)
        ).plan
        return {node.id: node.description for node in plan.nodes}

    def _latest_uri(self, job_id: str, kind: str) -> str | None:
        """Return the URI of a snapshot in the checkpoint statistics (`CheckpointingStatistics.LatestCheckpoints`)."""
        latest_checkpoints = self.latest_checkpoints(job_id)
        snapshot = getattr(latest_checkpoints, kind) if latest_checkpoints is not None else None
        location: str | None = snapshot and snapshot.external_path
        return location

    def _require(self, method: str, path: str, answer_type: type[T], body: Mapping[str, object] | None = None) -> T:
        """Send a request; return its answer as `answer_type`. Raises `RequestError` if Flink has no such resource."""
        answer = self._request(method, path, answer_type, body)
        if answer is None:
            raise RequestError(
                "Flink does not know this resource",
                path=self.address + path.partition("?")[0],
                advice="check the address, and the ids of job and jar",
            )
        return answer

    def _request(
        self,
        method: str,
        path: str,
        answer_type: type[T],
        body: Mapping[str, object] | None = None,
        refusal_statuses: Sequence[int] = (404,),
    ) -> T | None:
        """Send a request; return the answer as `answer_type`; None if Flink refuses with one of `refusal_statuses`."""
        url = self.address + path.partition("?")[0]
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.RequestError as error:
            raise StoreError(
                "Flink cannot be reached",
                path=url,
                found=str(error) or type(error).__name__,
                advice="check that the JobManager is running, and that this machine can reach it",
            ) from None
        flink_error = None if answer.is_success else error_message(answer.content)
        if answer.status_code in refusal_statuses and flink_error is not None:
            return None
        if answer.status_code in (401, 403):
            raise RequestError(
                "Flink's REST API denies access",
                path=url,
                found=f"status {answer.status_code}",
                advice=self._access_advice,
            )
        status_text = f"status {answer.status_code}: {answer.text[:200] if flink_error is None else flink_error}"
        if answer.status_code == 404:
            advice = "check the address, and the proxy in front of Flink"
            raise StoreError("this address is not Flink's REST API", path=url, found=status_text, advice=advice)
        if answer.status_code == 429 or answer.status_code >= 500:
            raise StoreError("Flink has a temporary problem", path=url, found=status_text)
        if not answer.is_success:
            raise RequestError("Flink refuses the request", path=url, found=status_text)
        try:
            return msgspec.json.decode(answer.content, type=answer_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RequestError(
                "this address is not Flink's REST API",
                path=url,
                expected=f"Flink's JSON: {error}",
                found=answer.text[:100],
                advice="check the address, and the proxy in front of Flink",
            ) from None
