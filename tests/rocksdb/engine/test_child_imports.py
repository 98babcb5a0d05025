"""Child processes import nothing: the import of a module that another thread is importing at the fork never ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_child_imports_no_module_while_it_reads_a_compressed_database() -> None:
    """A new program, which no other test shares, reads a database, and then opens it with a wrong state name."""
    script = Path(__file__).with_name("child_imports.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(script), "1.20-rocksdb-native"]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed == "\n\n", "lines with the modules that the first and the second reading have imported"
