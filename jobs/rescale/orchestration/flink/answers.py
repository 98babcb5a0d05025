"""What Flink's REST API answers with, as far as a rescale reads it; of another shape it is not Flink that answers."""

from __future__ import annotations

import msgspec

from rescale.orchestration.flink.running_job import JobLine


class Jobs(msgspec.Struct):
    """`MultipleJobsDetails`."""

    jobs: list[JobLine]


class _ExecutionConfig(msgspec.Struct, rename="kebab"):
    job_parallelism: int = -1


class JobConfig(msgspec.Struct, rename="kebab"):
    """`JobConfigInfo`."""

    execution_config: _ExecutionConfig = msgspec.field(default_factory=_ExecutionConfig)


class _RootException(msgspec.Struct):
    stacktrace: str


class _ExceptionHistory(msgspec.Struct):
    entries: list[_RootException] = []


class JobExceptions(msgspec.Struct):
    """`JobExceptionsInfoWithHistory`; `root` is what older releases have in the place of a history."""

    history: _ExceptionHistory = msgspec.field(name="exceptionHistory", default_factory=_ExceptionHistory)
    root: str | None = msgspec.field(name="root-exception", default=None)

    @property
    def stack_trace(self) -> str | None:
        """Of the newest one."""
        return self.history.entries[0].stacktrace if self.history.entries else self.root


class _Failure(msgspec.Struct, rename="kebab"):
    stack_trace: str


class _SavepointInfo(msgspec.Struct):
    location: str | None = None
    failure: _Failure | None = msgspec.field(name="failure-cause", default=None)


class SavepointOperation(msgspec.Struct):
    """`AsynchronousOperationResult` of a `SavepointInfo`; without an `operation` while it goes on."""

    operation: _SavepointInfo | None = None


class CheckpointConfig(msgspec.Struct):
    """`CheckpointConfigInfo`."""

    state_backend: str | None = None
    state_changelog_enabled: bool | None = None


class _Snapshot(msgspec.Struct):
    external_path: str | None = None


class _Latest(msgspec.Struct):
    completed: _Snapshot | None = None
    savepoint: _Snapshot | None = None
    restored: _Snapshot | None = None


class Checkpoints(msgspec.Struct):
    """`CheckpointingStatistics`."""

    latest: _Latest | None = None


class Metric(msgspec.Struct):
    """One of an `AggregatedMetricsResponseBody`."""

    name: str = msgspec.field(name="id")


class _Jar(msgspec.Struct):
    id: str
    name: str


class Jars(msgspec.Struct):
    """`JarListInfo`."""

    files: list[_Jar]


class Errors(msgspec.Struct):
    """`ErrorResponseBody`: what comes with every refusal, unless somebody else refuses."""

    errors: list[str]
