"""Flink's REST API, as far as a rescale needs it: jobs, savepoints, jars.

The network, a JobManager that is about to be elected and faults of the server are `StoreError`s: they pass. What Flink
refuses is a `RequestError` with Flink's own words. What Flink does not know (it forgets finished savepoints after
`rest.async.store-duration`, jobs after `jobstore.expiration-time`) is None, if Flink itself says so: a proxy that has
lost its way answers alike, and a job that it knows nothing of may run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from rescale.errors import RequestError, StoreError
from rescale.flink.start import MAX_PARALLELISM_OPTION, Start
from rescale.orchestration.flink.answers import (
    CheckpointConfig,
    Checkpoints,
    Errors,
    Jars,
    JobConfig,
    JobExceptions,
    Jobs,
    Metric,
    SavepointOperation,
)
from rescale.orchestration.flink.running_job import Job, JobLine

T = TypeVar("T")

_Anything = dict[str, Any]

_TIMEOUT_SECONDS = 60
"""For one request; to run a jar takes longest, because its `main` runs meanwhile."""


class Taking(StrEnum):
    """What becomes of the job when its savepoint is taken."""

    RUN_ON = "run on"
    """It goes on, so what it does afterwards is not in the savepoint."""

    STOP = "stop"
    """Stop with savepoint: sources end, sinks commit what they wrote. Nothing comes after the savepoint."""

    CANCEL = "cancel"
    """It is cancelled as soon as the savepoint is there; what sinks have not committed is in the savepoint."""


class SavepointFormat(StrEnum):
    """`SavepointFormatType`."""

    CANONICAL = "canonical"
    """The same for all state backends: every shape can be had from it, and all timers are in it."""

    NATIVE = "native"
    """The state backend's own files; of RocksDB they lack the timers that are kept on the heap."""


class StateBackend(NamedTuple):
    """What a job keeps its keyed state in: the name of a class, and whether a changelog lies over it."""

    name: str
    changelog: bool


class Savepoint(NamedTuple):
    """How far a savepoint is: it lies at `location`, or has a `failure`, or neither yet."""

    location: str | None
    failure: str | None


class Flink:
    """A cluster's REST API. A context manager.

    `address` may hold a path, for a proxy; `headers` are sent with every request; `transport` are httpx's own words for
    certificates and proxies (`verify`, `proxy`).
    """

    def __init__(self, address: str, headers: Mapping[str, str] | None = None, **transport: Any) -> None:
        self.address = address
        self._http = httpx.Client(base_url=address, headers=headers, timeout=_TIMEOUT_SECONDS, **transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def jobs(self) -> list[JobLine]:
        """All jobs that Flink knows, ended ones too."""
        return self._known("GET", "/jobs/overview", Jobs).jobs

    def job(self, job_id: str) -> Job | None:
        return self._ask("GET", f"/jobs/{job_id}", Job)

    def default_parallelism(self, job_id: str) -> int | None:
        """The parallelism of the job's operators that have none of their own; None if the job does not say it."""
        parallelism = self._known("GET", f"/jobs/{job_id}/config", JobConfig).execution_config.job_parallelism
        return parallelism if parallelism > 0 else None

    def why_failed(self, job_id: str) -> str | None:
        """The root exception of a job, without its stack trace."""
        found = self._ask("GET", f"/jobs/{job_id}/exceptions?maxExceptions=1", JobExceptions)
        return _causes(found.stack_trace) if found is not None and found.stack_trace else None

    def cancel(self, job_id: str) -> None:
        """Asks the job to end; one that has ended or is not known is left alone."""
        self._ask("PATCH", f"/jobs/{job_id}?mode=cancel", _Anything, allowed=(404, 409))

    def trigger_savepoint(
        self, job_id: str, trigger_id: str, directory: str, taking: Taking, savepoint_format: SavepointFormat
    ) -> None:
        """Begins a savepoint below `directory`; one that was begun with this trigger id stays the only one.

        `SavepointTriggerHandler` and `StopWithSavepointHandler` take the id in the request.
        """
        if taking is Taking.STOP:
            path, body = "stop", {"targetDirectory": directory, "drain": False}
        else:
            path, body = "savepoints", {"target-directory": directory, "cancel-job": taking is Taking.CANCEL}
        body |= {"formatType": savepoint_format.name, "triggerId": trigger_id}
        self._known("POST", f"/jobs/{job_id}/{path}", _Anything, body)

    def savepoint(self, job_id: str, trigger_id: str) -> Savepoint | None:
        """What became of a trigger, of either kind."""
        found = self._ask("GET", f"/jobs/{job_id}/savepoints/{trigger_id}", SavepointOperation)
        if found is None:
            return None
        if found.operation is None:
            return Savepoint(None, None)
        failure = found.operation.failure
        return Savepoint(found.operation.location, _causes(failure.stack_trace) if failure is not None else None)

    def state_backend(self, job_id: str) -> StateBackend | None:
        """None for a job that Flink makes no checkpoints of (`CheckpointConfigHandler`)."""
        found = self._ask("GET", f"/jobs/{job_id}/checkpoints/config", CheckpointConfig)
        return None if found is None else StateBackend(found.state_backend or "", bool(found.state_changelog_enabled))

    def metrics(self, job_id: str, vertex_id: str) -> set[str]:
        """Names of what is measured of a vertex' running operators; none while Flink has not fetched them yet."""
        found = self._ask("GET", f"/jobs/{job_id}/vertices/{vertex_id}/subtasks/metrics", list[Metric])
        return {metric.name for metric in found or ()}

    def latest_savepoint(self, job_id: str) -> str | None:
        """Where the last savepoint of a job lies that completed, by the job's own statistics."""
        return self._latest(job_id, "savepoint")

    def latest_checkpoint(self, job_id: str) -> str | None:
        """Where the last checkpoint lies that completed since the job was started; savepoints do not count."""
        return self._latest(job_id, "completed")

    def restored_from(self, job_id: str) -> str | None:
        """Where the snapshot lies that the job was last restored from."""
        return self._latest(job_id, "restored")

    def jars(self) -> dict[str, str]:
        """Names of the uploaded jars by id."""
        return {jar.id: jar.name for jar in self._known("GET", "/jars", Jars).files}

    def run_jar(
        self,
        jar: str,
        job_id: str,
        start: Start,
        entry_class: str | None,
        arguments: Sequence[str],
        configuration: Mapping[str, str],
    ) -> None:
        """Starts a job from a snapshot, which stays the user's (`RestoreMode.NO_CLAIM`), with nothing left out of it.

        Flink refuses a second job of the same id.
        """
        options = dict(configuration)
        if start.max_parallelism is not None:
            options[MAX_PARALLELISM_OPTION] = str(start.max_parallelism)
        body = {
            "jobId": job_id,
            "entryClass": entry_class,
            "programArgsList": list(arguments),
            "parallelism": start.parallelism,
            "savepointPath": start.snapshot,
            "allowNonRestoredState": False,
            "restoreMode": "NO_CLAIM",
            "flinkConfiguration": options,
        }
        given = {name: value for name, value in body.items() if value is not None}
        self._known("POST", f"/jars/{quote(jar)}/run", _Anything, given)

    def _latest(self, job_id: str, kind: str) -> str | None:
        """The place of a snapshot in the job's statistics (`CheckpointingStatistics.LatestCheckpoints`)."""
        found = self._ask("GET", f"/jobs/{job_id}/checkpoints", Checkpoints)
        snapshot = getattr(found.latest, kind) if found is not None and found.latest is not None else None
        location: str | None = snapshot and snapshot.external_path
        return location

    def _known(self, method: str, path: str, kind: type[T], body: Any = None) -> T:
        """As `_ask`, of something that must be there."""
        answer = self._ask(method, path, kind, body)
        if answer is None:
            raise RequestError(
                "Flink does not know what it was asked for",
                path=self.address + path.partition("?")[0],
                advice="look at the address and at the ids of job and jar",
            )
        return answer

    def _ask(
        self, method: str, path: str, kind: type[T], body: Any = None, allowed: Sequence[int] = (404,)
    ) -> T | None:
        """What is answered, of this kind; None where Flink refuses with a status that is `allowed`."""
        place = self.address + path.partition("?")[0]
        try:
            answer = self._http.request(method, path, json=body)
        except httpx.TransportError as error:
            raise StoreError(
                "Flink cannot be reached", path=place, found=str(error) or type(error).__name__, advice="is it up?"
            ) from None
        errors = None if answer.is_success else _errors(answer)
        if answer.status_code in allowed and errors is not None:
            return None
        if answer.status_code in (401, 403):
            raise RequestError(
                "Flink's REST API refuses the access",
                path=place,
                found=f"status {answer.status_code}",
                advice="name an Airflow connection with a login and password, or with a password alone for a token",
            )
        words = f"status {answer.status_code}: {answer.text[:200] if errors is None else errors}"
        if answer.status_code == 404:
            advice = "look at the address, and at what stands before Flink"
            raise StoreError("somebody else than Flink answers", path=place, found=words, advice=advice)
        if answer.status_code == 429 or answer.status_code >= 500:
            raise StoreError("Flink has trouble", path=place, found=words)
        if not answer.is_success:
            raise RequestError("Flink refuses the request", path=place, found=words)
        try:
            return msgspec.json.decode(answer.content, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RequestError(
                "what answers is not Flink's REST API",
                path=place,
                expected=f"JSON of a known shape: {error}",
                found=answer.text[:100],
            ) from None


def _errors(answer: httpx.Response) -> str | None:
    """What Flink says where it refuses; None if it is not Flink that does."""
    try:
        errors = msgspec.json.decode(answer.content, type=Errors).errors
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return "; ".join(map(_causes, errors))


def _causes(trace: str) -> str:
    """The messages of a Java stack trace: its first line and those of its causes, each once."""
    lines = [line.strip() for line in trace.splitlines()]
    messages = [line.removeprefix("Caused by: ") for i, line in enumerate(lines) if i == 0 or line.startswith("Caused")]
    return " <- ".join(dict.fromkeys(filter(None, messages)))
