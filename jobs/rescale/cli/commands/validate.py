"""`rescale validate`: compare a published result with its source again."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_master, add_request_options, add_source
from rescale.cli.command_steps import run_command_step
from rescale.cli.output import Output
from rescale.options.command_line import arguments_of_step
from rescale.options.profiles import add_profiles
from rescale.report.pages.outcome import certificate_page
from rescale.runstate.certificate import CertificateDocument
from rescale.runstate.step import Step
from rescale.runstate.target_safety import is_same_place
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError

SUMMARY = "compare a published result with its source again"
DESCRIPTION = (
    "Compares the state of SOURCE and TARGET, to the depth that --proof names; the run that published TARGET may have "
    "compared less. Writes nothing."
)
EXAMPLE = "rescale validate s3://flink/savepoint-1a2b s3://flink/new"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument("target", metavar="TARGET", help="a published result")
    differences = "Intended differences in TARGET (default: those that its certificate declares)."
    add_request_options(parser, "validate", differences)
    add_master(parser)
    add_profiles(parser, "source", ("target",))


def execute(arguments: argparse.Namespace, output: Output) -> None:
    source, target = normalise(arguments.source), normalise(arguments.target)
    if is_same_place(source.removesuffix("/_metadata"), target):
        raise RequestError(
            "SOURCE and TARGET are the same place, and a comparison of a snapshot with itself proves nothing",
            path=target,
            expected="a source, and the result that a run has made of it",
            advice="name the source first, then the target of the run",
        )
    options, text_by_flag = arguments_of_step(arguments, "validate")
    step_arguments = ["--source", source, "--target", target, *options]
    certificate = run_command_step(Step.VALIDATE, step_arguments, arguments.master, text_by_flag).read(
        CertificateDocument
    )
    output.answer_page(certificate, certificate_page)
