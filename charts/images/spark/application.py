"""What Spark's operator runs as the program of its application: the command line.

The operator has started a JVM for it. Steps do not use that: each starts its own, with executors of its own, as the
chart's configuration says.
"""

from __future__ import annotations

import os
import sys

from rescale.cli.main import main

for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
    os.environ.pop(name, None)
os.environ["SPARK_CONF_DIR"] = "/etc/rescale/spark"
sys.exit(main())
