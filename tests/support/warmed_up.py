"""Importing this takes a while: then all that is compiled is loaded, and those forked from this process have it."""

from __future__ import annotations

import io
import tempfile
from contextlib import redirect_stderr
from pathlib import Path

from rescale.rocksdb.library import library
from support import snapshots
from support.pipeline import execute_without_spark, plan_rescale

with tempfile.TemporaryDirectory() as _home, redirect_stderr(io.StringIO()):
    _target = str(Path(_home, "target"))
    execute_without_spark(plan_rescale(snapshots.directory("2-finished"), _target, max_parallelism=["40"]))
library()
