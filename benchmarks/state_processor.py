"""Rehash by a program that uses Flink's State Processor API (`StateProcessorRehash.java`), for comparison."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import tests_path  # noqa: F401
from oracle.distribution import LINES, STATE_PROCESSORS, flink_home, state_processor_api
from oracle.harness import jvm_options

_LINE = "1.20"
_SOURCE = Path(__file__).with_name("StateProcessorRehash.java")
_PARALLELISM = 4
"""Parallelism of the program: the fastest of several that were tried on two cores."""

_JVM = ("-XX:+UseTransparentHugePages", "-Xmx10g", "-XX:+UseParallelGC", "-XX:TieredStopAtLevel=4")


def state_processor(source: Path, target: Path, max_parallelism: int, home: Path) -> list[str]:
    """Return the command that gives a `big_savepoint` another max parallelism; its temporary files go to `home`."""
    classes = home / "classes"
    jars = [*flink_home(LINES[_LINE]), state_processor_api(STATE_PROCESSORS[_LINE])]
    path = os.pathsep.join(map(str, [classes, *jars]))
    subprocess.run(["javac", "-nowarn", "-d", str(classes), "-cp", path, str(_SOURCE)], check=True)
    options = [option for option in jvm_options() if not option.startswith("-XX:")]
    arguments = (source.as_uri(), target.as_uri(), "big", "value 0", _PARALLELISM, max_parallelism, home / "scratch")
    return ["java", *options, *_JVM, "-cp", path, "StateProcessorRehash", *map(str, arguments)]
