"""Put the helpers of the tests on the path of a benchmark, and of the processes that it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

_TESTS = str(Path(__file__).parents[1] / "tests")

sys.path.append(_TESTS)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), _TESTS)))
