"""`rescale doctor`: check this machine, a source, a target and Flink."""

from __future__ import annotations

import argparse

from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.doctor.diagnosis import diagnose, diagnosis_text
from rescale.options.profiles import add_profiles
from rescale.planning.request.request import target_place
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError

SUMMARY = "check this machine, a source, a target and Flink"
DESCRIPTION = (
    "Checks what a run needs, and prints a line for each check: what was tried, what came out, what it means, and what "
    "to do. Every call checks the packages that move state, scratch space (SPARK_LOCAL_DIRS, or else the system's "
    "temporary directory), and Java, which only a Spark cluster needs. A source is only listed and read. In the store "
    "of a target, put, put-if-absent, read, copy, upload in parts and delete are tried on small files in "
    "TARGET.rescale, which are removed again; TARGET itself stays as it is. Flink's REST API is asked for its release, "
    "and for how its running jobs make checkpoints. In a Kubernetes pod, the rights of its service account to start "
    "executors are checked, too."
    "\n\n"
    "Exit code 0: no check ended with an error, though there may be warnings; 2: a check ended with an error."
)
EXAMPLE = "rescale doctor --source s3://flink/savepoint-1a2b --target s3://flink/new --flink http://jobmanager:8081"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", metavar="URI", help="a savepoint or checkpoint to list and read")
    parser.add_argument("--target", metavar="URI", help="directory of a result, whether it exists or not")
    parser.add_argument("--flink", metavar="URL", help="address of Flink's REST API, such as http://jobmanager:8081")
    add_profiles(parser, "source", ("target",))


def execute(arguments: argparse.Namespace, output: Output) -> int:
    source = None if arguments.source is None else normalise(arguments.source)
    target = None if arguments.target is None else target_place(arguments.target)
    with waiting("checking the environment"):
        diagnosis = diagnose(source, target, arguments.flink)
    output.answer(diagnosis, lambda: diagnosis_text(diagnosis))
    return 0 if diagnosis.healthy else RequestError.exit_code
