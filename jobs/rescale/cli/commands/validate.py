"""`rescale validate`: re-check a published result."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import (
    add_key_hash,
    add_master,
    add_proof,
    add_source,
    add_surgery,
    declared_options,
    proof_of,
)
from rescale.cli.output import Output
from rescale.cli.own_step import run_own_step
from rescale.process import Step
from rescale.report.pages.outcome import certificate_text
from rescale.storage.locations import normalise

SUMMARY = "re-check a published result"
DESCRIPTION = (
    "Compares the state of SOURCE and TARGET, as deep as --proof says, which may be deeper than the run did that "
    "published TARGET. Writes nothing."
)
EXAMPLE = "rescale validate s3://flink/savepoint-1a2b s3://flink/new"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    parser.add_argument("target", metavar="TARGET", help="a published result")
    add_key_hash(parser)
    add_surgery(parser, "What differs in TARGET on purpose; if nothing is said, what its certificate declares.")
    add_proof(parser)
    add_master(parser)


def execute(arguments: argparse.Namespace, output: Output) -> None:
    words = ["--source", normalise(arguments.source), "--target", normalise(arguments.target)]
    words += ["--proof", proof_of(arguments).value, *declared_options(arguments)]
    words += [f"--key-hash={key_hash}" for key_hash in arguments.key_hash]
    certificate = run_own_step(Step.VALIDATE, words, arguments.master)
    output.answer(certificate, lambda: certificate_text(certificate))
