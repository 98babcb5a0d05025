"""Response bodies of Flink's REST API: the fields that a rescale reads, and parsers of texts in them.

A body that lacks a field without a default value is not from Flink.
"""

from __future__ import annotations

import re

import msgspec

from rescale.flink_rest.running_job import JobOverview

_DURATION = re.compile(r"(\d+)\s*(\D*)")
_UNITS = (
    (1e-9, "ns nano nanos nanosecond nanoseconds"),
    (1e-6, "µs micro micros microsecond microseconds"),
    (0.001, "ms milli millis millisecond milliseconds"),
    (1.0, "s sec secs second seconds"),
    (60.0, "min m minute minutes"),
    (3600.0, "h hour hours"),
    (86400.0, "d day days"),
)
"""Length of each unit in seconds, and its labels (`TimeUtils.TimeUnit`). A number without a unit is in milliseconds."""
_SECONDS_BY_UNIT = {"": 0.001, **{label: seconds for seconds, labels in _UNITS for label in labels.split()}}


class Accepted(msgspec.Struct):
    """Answer that only says that a request was accepted: any JSON object."""


class Jobs(msgspec.Struct):
    """All jobs that Flink knows (`MultipleJobsDetails`)."""

    jobs: list[JobOverview]


class _ExecutionConfig(msgspec.Struct, rename="kebab"):
    job_parallelism: int = -1


class JobConfig(msgspec.Struct, rename="kebab"):
    """Configuration of a job (`JobConfigInfo`)."""

    execution_config: _ExecutionConfig = msgspec.field(default_factory=_ExecutionConfig)


class _RootException(msgspec.Struct):
    stacktrace: str


class _ExceptionHistory(msgspec.Struct):
    entries: list[_RootException] = []


class JobExceptions(msgspec.Struct):
    """Exceptions of a job (`JobExceptionsInfoWithHistory`); older releases have `root` instead of a history."""

    history: _ExceptionHistory = msgspec.field(name="exceptionHistory", default_factory=_ExceptionHistory)
    root: str | None = msgspec.field(name="root-exception", default=None)

    @property
    def stack_trace(self) -> str | None:
        """Stack trace of the newest exception."""
        return self.history.entries[0].stacktrace if self.history.entries else self.root


class _Failure(msgspec.Struct, rename="kebab"):
    stack_trace: str


class _SavepointInfo(msgspec.Struct):
    location: str | None = None
    failure: _Failure | None = msgspec.field(name="failure-cause", default=None)


class SavepointOperation(msgspec.Struct):
    """Progress of a savepoint (`AsynchronousOperationResult<SavepointInfo>`); no `operation` until it has ended."""

    operation: _SavepointInfo | None = None


class _CheckpointInfo(msgspec.Struct):
    number: int | None = msgspec.field(name="checkpointId", default=None)
    failure: _Failure | None = msgspec.field(name="failureCause", default=None)


class CheckpointOperation(msgspec.Struct):
    """Progress of a checkpoint (`AsynchronousOperationResult<CheckpointInfo>`); no `operation` until it has ended."""

    operation: _CheckpointInfo | None = None


class Overview(msgspec.Struct, rename="kebab"):
    """Overview of the cluster (`ClusterOverview`)."""

    flink_version: str


class ConfigEntry(msgspec.Struct):
    """An option of the JobManager's configuration (`ConfigurationInfo`)."""

    key: str
    value: str


class Dashboard(msgspec.Struct, rename="kebab"):
    """Configuration of Flink's web UI (`DashboardConfiguration`); the refresh interval is in milliseconds."""

    refresh_interval: int = 3000


class Externalization(msgspec.Struct):
    """Whether checkpoints are retained (`enabled`), and whether cancelling the job deletes them nevertheless.

    Flink's class is `CheckpointConfigInfo.ExternalizedCheckpointInfo`.
    """

    enabled: bool = False
    delete_on_cancellation: bool = False


class CheckpointConfig(msgspec.Struct):
    """How a job makes checkpoints (`CheckpointConfigInfo`); `interval` is in milliseconds."""

    interval: int | None = None
    externalization: Externalization = msgspec.field(default_factory=Externalization)
    unaligned_checkpoints: bool = False

    state_backend: str | None = None
    state_changelog_enabled: bool | None = None


class _Snapshot(msgspec.Struct):
    external_path: str | None = None


class RestoredSnapshot(_Snapshot):
    """The snapshot that a job was last restored from: its number and URI (`RestoredCheckpointStatistics`)."""

    id: int = 0


class CompletedSavepoint(_Snapshot):
    """A completed savepoint (`CompletedCheckpointStatistics`); its type is a `RestAPICheckpointType`."""

    id: int = 0
    checkpoint_type: str | None = None

    @property
    def stops_the_job(self) -> bool:
        """Whether the savepoint was taken to stop the job; sinks then commit everything that they wrote before it."""
        return self.checkpoint_type == "SYNC_SAVEPOINT"


class CheckpointDetails(_Snapshot):
    """A checkpoint (`CheckpointStatistics`): its state, such as `IN_PROGRESS`, and its URI if it is complete."""

    status: str = ""


class CompletedCheckpoint(_Snapshot):
    """A completed checkpoint (`CompletedCheckpointStatistics`): number, bytes of its state, and bytes that it wrote."""

    id: int = 0
    state_size: int = 0
    checkpointed_size: int | None = None


class LatestCheckpoints(msgspec.Struct):
    """The latest checkpoint of each kind since the JobManager started, and the restored snapshot.

    Flink's class is `CheckpointingStatistics.LatestCheckpoints`.
    """

    completed: CompletedCheckpoint | None = None
    savepoint: CompletedSavepoint | None = None
    restored: RestoredSnapshot | None = None


class _MinMaxAvg(msgspec.Struct):
    max: int = 0


class _Summary(msgspec.Struct):
    checkpointed_size: _MinMaxAvg = msgspec.field(default_factory=_MinMaxAvg)
    end_to_end_duration: _MinMaxAvg = msgspec.field(default_factory=_MinMaxAvg)


class Checkpoints(msgspec.Struct):
    """Statistics of a job's checkpoints (`CheckpointingStatistics`)."""

    latest: LatestCheckpoints | None = None
    summary: _Summary | None = None

    @property
    def bytes_per_second(self) -> float | None:
        """Lower bound of the rate at which the job's largest checkpoint was written; None if it is unknown."""
        if self.summary is None or not self.summary.end_to_end_duration.max:
            return None
        return 1000 * self.summary.checkpointed_size.max / self.summary.end_to_end_duration.max or None


class Metric(msgspec.Struct):
    """A metric of a vertex (`AggregatedMetricsResponseBody`)."""

    name: str = msgspec.field(name="id")


class _Jar(msgspec.Struct):
    id: str
    name: str


class Jars(msgspec.Struct):
    """The jars that were uploaded to a cluster (`JarListInfo`)."""

    files: list[_Jar]


class _PlanNode(msgspec.Struct):
    id: str
    description: str = ""


class _PlanNodes(msgspec.Struct):
    nodes: list[_PlanNode]


class JarPlan(msgspec.Struct):
    """The job that a jar would start (`JobPlanInfo`)."""

    plan: _PlanNodes


class ErrorResponse(msgspec.Struct):
    """`ErrorResponseBody`: the body of Flink's own errors, which a proxy's errors do not have."""

    errors: list[str]


def error_message(body: bytes) -> str | None:
    """Return Flink's message in the body of an error, or None if the error is not Flink's."""
    try:
        errors = msgspec.json.decode(body, type=ErrorResponse).errors
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return "; ".join(map(cause_messages, errors))


def cause_messages(stack_trace: str) -> str:
    """Return the messages of a Java stack trace: those of the exception and its causes, each once."""
    lines = [line.strip() for line in stack_trace.splitlines()]
    messages = [line.removeprefix("Caused by: ") for i, line in enumerate(lines) if i == 0 or line.startswith("Caused")]
    return " <- ".join(dict.fromkeys(filter(None, messages)))


def is_directory(location: str | None) -> bool:
    """Return whether a location is a directory, not a placeholder like `<checkpoint-not-externally-addressable>`."""
    return location is not None and not location.startswith("<")


def seconds_of(duration: str) -> float:
    """Return the seconds of a duration in Flink's options (`TimeUtils`), such as `3 s` or `500` (milliseconds).

    An unknown format counts as a minute.
    """
    match = _DURATION.fullmatch(duration.strip().lower())
    return int(match[1]) * _SECONDS_BY_UNIT[match[2]] if match and match[2] in _SECONDS_BY_UNIT else 60.0
