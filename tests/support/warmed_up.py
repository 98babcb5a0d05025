"""Module whose slow import loads all compiled loops, libraries and boto3, for processes forked from this one."""

from __future__ import annotations

import io
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

from rescale.rocksdb.engine.library import library
from rescale.storage import store
from support import snapshots
from support.pipeline import execute_without_spark, plan_rescale

with tempfile.TemporaryDirectory() as _home, redirect_stderr(io.StringIO()):
    _target = str(Path(_home, "target"))
    execute_without_spark(plan_rescale(snapshots.directory("2-finished"), _target, max_parallelism=["40"]))
library()
store.open_store("s3://bucket")  # loads boto3 and its description of S3
store._s3.cache_clear()  # a fork makes its own client, with its own environment
