"""`rescale run`: plan, move, validate, publish."""

from __future__ import annotations

import argparse
import os
import socket

from rescale.cli.arguments import add_master, add_proof, add_shape, add_source, add_uids, prepared, proof_of
from rescale.cli.consent import agree_to_losses
from rescale.cli.output import Output
from rescale.cli.own_step import run_own_step
from rescale.cli.terminal import waiting
from rescale.errors import RescaleError
from rescale.insight.cluster import cluster_of_environment
from rescale.names import quoted
from rescale.planning.values.plan import Plan
from rescale.planning.values.proof import Proof, how_proven
from rescale.process import Step
from rescale.report.pages.outcome import outcome, outcome_text
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_document, plan_text
from rescale.report.stored import put_report
from rescale.target.claim import claim, refuse_taken
from rescale.target.documents import store_plan_page
from rescale.target.places import places_of
from rescale.target.publication import Published, is_published, publish

SUMMARY = "plan, move, validate, publish"
DESCRIPTION = "Rescales a snapshot. Flink sees nothing in the target until everything has been validated."
EXAMPLE = "rescale run s3://flink/savepoint-1a2b --target s3://flink/new --parallelism visits=6"

RESUMES = True
"""After it was interrupted, the same command goes on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_shape(parser)
    add_uids(parser)
    add_proof(parser)
    add_master(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask whether what is dropped may be lost")
    parser.add_argument(
        "--accept-unconditional-publish",
        action="store_true",
        help="publish to a store that does not honour put-if-absent; make sure that no other run has this target",
    )


def execute(arguments: argparse.Namespace, output: Output) -> None:
    with waiting(f"reading {arguments.source}"):
        plan, snapshot, kafka = prepared(arguments)
        planned = plan_document(plan, snapshot, kafka, cluster_of_environment(os.environ))
    accept = arguments.accept_unconditional_publish
    proof, before = proof_of(arguments), is_published(plan)
    if not before:
        refuse_taken(plan)
    output.say(plan_text(planned))
    if not before:
        agree_to_losses(planned["surgery"], output, yes=arguments.yes)
        if how := how_proven(plan, proof):
            output.say(how)
        claim(plan, accept_unconditional=accept, by={"host": socket.gethostname(), "process": str(os.getpid())})
        store_plan_page(plan, plan_markdown(planned))
        output.say(put_report(plan, planned))
        _move(plan, arguments.master, proof)
    with waiting(f"publishing {plan.target}"):
        published = publish(plan, accept_unconditional=accept)
        put_report(plan)  # of a result that was there before, too: who published it may have ended right behind that
    if published.already and arguments.proof is not None:
        output.say(_what_proof_does_now(plan, published, proof))
    document = outcome(plan, published, planned["warnings"])
    output.answer(document, lambda: outcome_text(document))


def _what_proof_does_now(plan: Plan, published: Published, asked: Proof) -> str:
    """Nothing, of a result that was there before."""
    command = f"rescale validate {quoted(plan.source)} {quoted(plan.target)} --proof {asked.value}"
    before = f"this was published before, proven by {published.proof.value}"
    return f"{before}; to have it compared by {asked.value} now: {command}"


def _move(plan: Plan, master: str, proof: Proof) -> None:
    """The steps of a run, in one process; what ends one of them for good comes into the report."""
    try:
        run_own_step(Step.RUN, ["--plan", places_of(plan).plan, "--proof", proof.value], master)
    except RescaleError as error:
        if error.final:
            put_report(plan)
        raise
