"""Spark's event log, kept for its history server if `RESCALE_EVENT_LOG` names a directory of the store.

Spark itself would write there through Hadoop's S3 client, which our images do not have. So Spark writes a local file,
which is copied to the store when Spark has ended. A killed driver leaves no log. A failed copy gives only a warning.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf

from rescale.storage.locations import join, normalise
from rescale.storage.scratch import MARKER, ScratchKind, scratch_directory, scratch_folder
from rescale.storage.store import open_store
from rescale.text.errors import RescaleError

DIRECTORY_VARIABLE = "RESCALE_EVENT_LOG"

_LARGEST_LOG_BYTES = 64 * 1024 * 1024
"""Largest log that is kept, in bytes; the compressed log of ten thousand tasks has a few MB."""


@contextmanager
def keep_event_log(conf: SparkConf) -> Iterator[None]:
    """Keep the event log of the Spark that starts and ends inside the block with this configuration, if requested."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
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
                if log.name != MARKER:
                    _upload(log, directory)


def _upload(log: Path, directory: str) -> None:
    try:
        if log.stat().st_size > _LARGEST_LOG_BYTES:
            raise RescaleError(f"the log is larger than {_LARGEST_LOG_BYTES} bytes")
        uri = join(normalise(directory), log.name)
        open_store(uri).put(uri, log.read_bytes())
    except (RescaleError, OSError) as error:
        print(f"warning: Spark's event log is not kept: {error}", file=sys.stderr, flush=True)
    else:
        print(f"Spark's event log: {uri}", file=sys.stderr, flush=True)
