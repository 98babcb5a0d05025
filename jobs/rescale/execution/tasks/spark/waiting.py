"""Prints notices while no executor starts: Spark waits forever, and only logs "has not accepted any resources"."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

_FIRST_NOTICE_SECONDS = 60.0
"""Seconds before the first notice: a healthy pod takes 10 to 30 s to start if its image is on the node."""
_NOTICE_INTERVAL_SECONDS = 300.0
_POLL_SECONDS = 2.0


@contextmanager
def report_missing_executors(context: SparkContext) -> Iterator[None]:
    """During the block, print on standard error what Spark waits for, as long as there is no executor."""
    end_event = threading.Event()
    arguments = (
        lambda: int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1,  # Spark counts the driver, too
        missing_resources(context.getConf(), context.applicationId),
        end_event,
    )
    watcher = threading.Thread(target=watch, args=arguments, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        end_event.set()
        watcher.join()


def watch(
    count_executors: Callable[[], int],
    resources_text: str,
    end_event: threading.Event,
    first_seconds: float = _FIRST_NOTICE_SECONDS,
    interval_seconds: float = _NOTICE_INTERVAL_SECONDS,
    poll_seconds: float = _POLL_SECONDS,
) -> None:
    """Print `resources_text` after `first_seconds`, then every `interval_seconds`, until there are executors.

    Ends silently if Spark has stopped: the code that uses Spark reports that.
    """
    waited_seconds, next_report = 0.0, first_seconds
    with suppress(Py4JError, ConnectionError):
        while not count_executors():
            if end_event.wait(poll_seconds):
                return
            waited_seconds += poll_seconds
            if waited_seconds >= next_report:
                next_report += interval_seconds
                print(
                    f"no executor has started for {waited_seconds:.0f} s: {resources_text}", file=sys.stderr, flush=True
                )


def missing_resources(conf: SparkConf, application: str) -> str:
    """Return a sentence on the resources that an executor needs to start, and where to look."""
    cores = conf.get("spark.kubernetes.executor.request.cores") or conf.get("spark.executor.cores", "1")
    memory_text = f"{conf.get('spark.executor.memory', '1g')} + {conf.get('spark.executor.memoryOverhead')} of memory"
    if not (conf.get("spark.master") or "").startswith("k8s"):
        return f"the cluster must offer {cores} cores and {memory_text}"
    namespace = conf.get("spark.kubernetes.namespace", "default")
    return (
        f"its pod requests {cores} cores and {memory_text}; a node must have this room, and the image must be "
        f"available. To see why: kubectl -n {namespace} describe pods -l "
        f"spark-role=executor,spark-app-selector={application}"
    )
