"""Spark's event log, kept for its history server where `RESCALE_EVENT_LOG` names a directory of the store.

By itself Spark writes there through Hadoop's client of S3, which no image of ours has. So it writes a file on this
machine, which is put into the store when Spark has ended; a driver that is killed leaves none. Nothing fails for it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf

from rescale.errors import RescaleError
from rescale.storage.locations import join, normalise
from rescale.storage.scratch import ScratchKind, scratch_directory, scratch_folder
from rescale.storage.store import open_store

VARIABLE = "RESCALE_EVENT_LOG"

_LARGEST = 64 * 1024 * 1024
"""Bytes of a log that is kept; packed, one of ten thousand tasks has a few million."""


@contextmanager
def event_log_kept(conf: SparkConf) -> Iterator[None]:
    """In the block a Spark with this configuration starts and ends; what it told of itself is kept, if that is asked
    for."""
    directory = os.environ.get(VARIABLE)
    if not directory:
        yield
        return
    with scratch_folder(Path(scratch_directory()), ScratchKind.EVENT_LOG) as folder:
        conf.set("spark.eventLog.enabled", "true").set("spark.eventLog.dir", folder.as_uri())
        conf.set("spark.eventLog.compress", "true").set("spark.eventLog.rolling.enabled", "false")
        try:
            yield
        finally:
            for log in folder.iterdir():
                _keep(log, directory)


def _keep(log: Path, directory: str) -> None:
    try:
        if log.stat().st_size > _LARGEST:
            raise RescaleError(f"it is larger than {_LARGEST} bytes")
        uri = join(normalise(directory), log.name)
        open_store(uri).put(uri, log.read_bytes())
    except (RescaleError, OSError) as error:
        print(f"warning: Spark's event log is not kept: {error}", file=sys.stderr, flush=True)
    else:
        print(f"Spark's event log: {uri}", file=sys.stderr, flush=True)
