"""Where a task keeps what does not fit into memory."""

from __future__ import annotations

import os
import tempfile


def scratch_directory() -> str:
    """Where Spark keeps what it shuffles; else the system's place for temporary files."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
