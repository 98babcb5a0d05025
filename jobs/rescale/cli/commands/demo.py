"""`rescale demo`: run the whole DAG on this machine, on a real savepoint."""

from __future__ import annotations

import argparse
import shutil
from functools import partial
from importlib.util import find_spec

from rescale.cli.output import Output
from rescale.cli.termination import exit_code_of
from rescale.text.errors import RequestError

SUMMARY = "run the whole DAG on this machine, on a real savepoint"
DESCRIPTION = (
    "Starts an S3 server and an Airflow on 127.0.0.1, runs the DAG on a savepoint that comes with the package, and "
    "shows the state before and after. Removes everything when it ends."
)
EXAMPLE = "rescale demo --ui"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    mode_group = parser.add_mutually_exclusive_group()
    mode_group.add_argument(
        "--ui", action="store_true", help="keep it running, with Airflow's forms and graphs in the browser"
    )
    mode_group.add_argument(
        "--flink",
        action="store_true",
        help="let Flink restore the result, too (downloads its jars from PyPI once, 240 MB; needs javac)",
    )


def execute(arguments: argparse.Namespace, output: Output) -> int:
    if output.is_json:
        raise RequestError("the demo has no JSON output", advice="leave --output json out; rescale run answers in JSON")
    _check_machine(("java", "javac") if arguments.flink else ())
    say = partial(print, flush=True)
    try:
        if arguments.ui:
            from rescale.demo.ui import demo_ui

            demo_ui(say)
        else:
            from rescale.demo.once import demo

            demo(say, with_flink=arguments.flink)
    except KeyboardInterrupt as interruption:
        say("Interrupted: everything that the demo started is removed.")
        return exit_code_of(interruption)
    return 0


def _check_machine(programs: tuple[str, ...]) -> None:
    missing_packages = [name for name in ("airflow", "moto", "psutil", "pyspark") if find_spec(name) is None]
    if missing_packages:
        raise RequestError(
            "the demo needs optional dependencies that are not installed",
            found=f"no {', '.join(missing_packages)}",
            advice='pip install "flink-rescale[airflow,demo,spark]"; in a checkout: uv sync --all-extras',
        )
    missing_programs = [name for name in programs if shutil.which(name) is None]
    if missing_programs:
        raise RequestError(
            "Flink needs a JDK 17 or newer",
            found=f"no {', '.join(missing_programs)} on the path",
            advice="Debian: apt install openjdk-17-jdk-headless",
        )
