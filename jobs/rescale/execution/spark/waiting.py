"""What is said while no executor comes: Spark alone would wait for ever, and say only that nothing accepts its job."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext

FIRST_SECONDS = 60.0
"""A pod of which nothing is wrong takes 10 to 30 s, with its image on the node."""
AGAIN_SECONDS = 300.0
_POLL_SECONDS = 2.0


@contextmanager
def executors_awaited(context: SparkContext) -> Iterator[None]:
    """In the block, says on standard error what is waited for, as long as there is no executor."""
    over = threading.Event()
    arguments = (lambda: _executors(context), waited_for(context.getConf(), context.applicationId), over)
    watcher = threading.Thread(target=watch, args=arguments, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()


def watch(
    executors: Callable[[], int],
    what: str,
    over: threading.Event,
    first: float = FIRST_SECONDS,
    again: float = AGAIN_SECONDS,
    poll: float = _POLL_SECONDS,
) -> None:
    """Says `what` after `first` seconds, and every `again` seconds after these, until there are executors.

    Whoever works with a Spark that has stopped says so.
    """
    waited, due = 0.0, first
    with suppress(Py4JError, ConnectionError):
        while not executors():
            if over.wait(poll):
                return
            waited += poll
            if waited >= due:
                due += again
                print(f"no executor has started for {waited:.0f} s: {what}", file=sys.stderr, flush=True)


def waited_for(conf: SparkConf, application: str) -> str:
    """What an executor of this configuration needs before it starts, and where to look."""
    cores = conf.get("spark.kubernetes.executor.request.cores") or conf.get("spark.executor.cores", "1")
    memory = f"{conf.get('spark.executor.memory', '1g')} and {conf.get('spark.executor.memoryOverhead')} beside it"
    if not (conf.get("spark.master") or "").startswith("k8s"):
        return f"the cluster has to offer {cores} cores and {memory}"
    namespace = conf.get("spark.kubernetes.namespace", "default")
    return (
        f"its pod asks for {cores} cores and {memory}; a node has to have that room, and the image to be there. "
        f"This says why: kubectl -n {namespace} describe pods -l spark-role=executor,spark-app-selector={application}"
    )


def _executors(context: SparkContext) -> int:
    """How many there are: Spark counts the driver among them."""
    return int(context._jsc.sc().getExecutorMemoryStatus().size()) - 1
