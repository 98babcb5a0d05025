"""Logs the options and arguments with which a jar is started, and warns of options that may be missing.

A jar is started with the options of the cluster and the form, because Flink does not show all options of a running job.
If an option of the running job is missing, the new job may make no checkpoints, or not start at all. For example, the
hashmap backend cannot restore files of RocksDB. If the run goes back, the old job would not start again either. So the
log warns before the job is stopped. It names missing options that the job's checkpoint configuration shows. If the
job's code sets these options, nothing is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rescale.airflow.hand_overs import RunJar
from rescale.airflow.task_log import log_text
from rescale.flink_rest.client import Flink
from rescale.flink_rest.responses import CheckpointConfig, seconds_of
from rescale.flink_rest.running_job import Job

_BACKEND_OPTIONS = ("state.backend.type", "state.backend")
"""`StateBackendOptions.STATE_BACKEND`, and its deprecated name."""

_INTERVAL_OPTION = "execution.checkpointing.interval"
_RETENTION_OPTION = "execution.checkpointing.externalized-checkpoint-retention"

_NEVER_MILLISECONDS = 1 << 62
"""With an interval of at least this many milliseconds between checkpoints, a job makes no checkpoints by itself."""

_KUBERNETES_OPERATOR_OPTION = "$internal.flink.version"
"""Option that Flink's Kubernetes operator sets for each of its clusters (`FlinkConfigBuilder`)."""


def log_jar_options(flink: Flink, job: Job, hand_over: RunJar) -> None:
    """Log the arguments of the jar, and warn of options that the running job has and the new one may lack."""
    arguments = " ".join(hand_over.arguments) or "none"
    log_text(f"the jar is started with the arguments of the form; the running job may have others: {arguments}")
    config, cluster_options = flink.checkpoint_config(job.job_id), flink.configuration()
    options = {**cluster_options, **hand_over.configuration}
    if config is not None and (lacking_options := list(_lacking_options(config, options))):
        log_text(
            "warning: the running job has options that neither the cluster nor the form sets: "
            f"{', '.join(lacking_options)}. Unless its code sets them, the job is started without them, also if the "
            'run goes back: enter them under "Options of Flink"'
        )
    if _KUBERNETES_OPERATOR_OPTION in cluster_options:
        log_text(
            "warning: Flink's operator manages this cluster. If it has submitted the job for a FlinkSessionJob, it may "
            'start the job again beside the one of the jar: clear "Jar", and name that resource under "FlinkDeployment"'
        )


def _lacking_options(config: CheckpointConfig, options: Mapping[str, str]) -> Iterator[str]:
    """Yield the options that a running job has according to its checkpoint configuration, and that `options` lacks."""
    backend = next((options[name] for name in _BACKEND_OPTIONS if name in options), "").lower()
    for backend_type in ("rocksdb", "forst"):
        if backend_type in (config.state_backend or "").lower() and backend_type not in backend:
            yield f"{_BACKEND_OPTIONS[0]}: {backend_type}"
    interval_milliseconds = config.interval or 0
    if 0 < interval_milliseconds < _NEVER_MILLISECONDS and (
        _INTERVAL_OPTION not in options or round(1000 * seconds_of(options[_INTERVAL_OPTION])) != interval_milliseconds
    ):
        yield f"{_INTERVAL_OPTION}: {interval_milliseconds} ms"
    is_retained = config.externalization.enabled and not config.externalization.delete_on_cancellation
    if is_retained and options.get(_RETENTION_OPTION) != "RETAIN_ON_CANCELLATION":
        yield f"{_RETENTION_OPTION}: RETAIN_ON_CANCELLATION"
