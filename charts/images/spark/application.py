"""Program of a SparkApplication of Spark's operator: the command line of Rescale.

The steps do not use the JVM that the operator has started for this program. Each step starts a JVM and executors of its
own, by the chart's configuration.
"""

from __future__ import annotations

import os
import sys

from rescale.cli.main import main

for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
    os.environ.pop(name, None)
os.environ["SPARK_CONF_DIR"] = "/etc/rescale/spark"
sys.exit(main())
