"""`rescale run`: plan, move, validate, publish."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rescale.cli.arguments import add_base, add_master, add_request_options, add_source, add_target, prepared_plan_of
from rescale.cli.command_steps import lasting_mover, run_command_step
from rescale.cli.consent import confirm_losses, confirm_mixed_maxima, confirm_restarts
from rescale.cli.output import Output
from rescale.cli.preparing import execute_preparation
from rescale.cli.run_name import name_of_this_job, name_of_this_run
from rescale.cli.terminal import waiting
from rescale.insight.cluster import cluster_of_environment
from rescale.options.profiles import add_profiles
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.plan.proof_scope import proof_sentence
from rescale.planning.prepare import PreparedPlan
from rescale.report.pages.outcome import outcome, outcome_page
from rescale.report.pages.plan_markdown import plan_markdown
from rescale.report.pages.planned import plan_document, plan_page
from rescale.report.renderers.text import render_text
from rescale.report.stored import put_report
from rescale.runstate.claim import claim, refuse_unavailable_target
from rescale.runstate.documents import put_document
from rescale.runstate.follower.rounds import Round, refuse_followed_target
from rescale.runstate.places import places_of
from rescale.runstate.publication import Published, is_published, publish
from rescale.runstate.step import Step
from rescale.text.errors import RescaleError
from rescale.text.names import quoted

SUMMARY = "plan, move, validate, publish"
DESCRIPTION = "Rescales a snapshot. Flink cannot restore the target until everything has been validated."
EXAMPLE = "rescale run s3://flink/savepoint-1a2b --target s3://flink/new --parallelism visits=6"

RESUMES = True
"""Whether the same command resumes the work after an interruption."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_target(parser)
    add_base(parser)
    add_request_options(parser, "run", "Operators are named as they are in SOURCE.", with_shape=True)
    add_master(parser)
    add_profiles(parser, "source", ("target", "base"))
    parser.add_argument(
        "--prepare",
        action="store_true",
        help="only copy SST files of SOURCE into TARGET, while the job still runs: for RocksDB with incremental "
        "checkpoints and an unchanged max parallelism. SOURCE may be the directory with the job's checkpoints. Can be "
        "repeated; the run itself copies what is new",
    )
    parser.add_argument(
        "--yes",
        action="store_true",
        help="answer yes to the questions of a run: whether it may drop state and old rows, let finished subtasks run "
        "again, and give operators different max parallelisms",
    )


def execute(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.prepare:
        execute_preparation(arguments, output)
        return
    with waiting(f"reading {arguments.source}"):
        prepared = prepared_plan_of(arguments, name_of_this_job())
    refuse_followed_target(prepared.plan.target)
    proof = None if arguments.proof is None else Proof(arguments.proof)
    accept = arguments.accept_unconditional_publish
    carry_out(prepared, output, arguments.master, proof, accept_unconditional=accept, is_confirmed=arguments.yes)


def carry_out(
    prepared: PreparedPlan,
    output: Output,
    master: str,
    requested_proof: Proof | None,
    *,
    accept_unconditional: bool,
    is_confirmed: bool = False,
    is_last_round: bool = False,
    rounds: Sequence[Round] = (),
    before_publishing: Callable[[], None] = lambda: None,
) -> None:
    """Move, validate and publish a plan, or resume an earlier run of the plan; print the outcome.

    `rounds` are the rounds that a follower made before this run, if this run is its last round.
    `before_publishing` raises an error if the validated result must not be published.
    """
    plan = prepared.plan
    proof, was_published = requested_proof or Proof.RECORDS, is_published(plan)
    if not was_published:
        refuse_unavailable_target(plan)
    with ExitStack() as exit_stack:
        # The process and its workers start while the plan is printed.
        record_bytes = sum(rekeying.work_bytes for operator in plan.operators for rekeying in operator.rekeyings)
        carry_out_plan = None if was_published else exit_stack.enter_context(lasting_mover(master, record_bytes))
        planned = plan_document(
            plan, prepared.snapshot, prepared.source_offsets, cluster_of_environment(os.environ), rounds
        )
        output.say(render_text(plan_page(planned)))
        if carry_out_plan is not None:
            confirm_losses(planned.surgery, output, is_confirmed=is_confirmed)
            confirm_restarts(planned.surgery, output, is_confirmed=is_confirmed)
            confirm_mixed_maxima(plan.mixed_maxima, output, is_confirmed=is_confirmed)
            if sentence := proof_sentence(plan, proof):
                output.say(sentence)
            claim(
                plan,
                accept_unconditional=accept_unconditional,
                run_identity=name_of_this_run(),
                is_last_round=is_last_round,
            )

            def write_reports() -> str:
                put_document(places_of(plan).plan_page, plan_markdown(planned).encode())
                return put_report(plan, planned)

            with errors_in_report(plan):
                carry_out_plan(plan, proof, write_reports)
        before_publishing()
        with waiting(f"publishing {plan.target}"):
            published = publish(plan, accept_unconditional=accept_unconditional)
    # If an earlier run has published, it may have ended before it wrote the report.
    put_report(plan)
    if published.was_already_published and requested_proof is not None:
        output.say(_unused_proof_remark(plan, published, proof))
    document = outcome(plan, published, planned.warnings)
    output.answer_page(document, outcome_page)


def _unused_proof_remark(plan: Plan, published: Published, requested_proof: Proof) -> str:
    """Return a remark that the requested proof has no effect, because an earlier run has published the result."""
    command = f"rescale validate {quoted(plan.source)} {quoted(plan.target)} --proof {requested_proof.value}"
    published_text = f"the result was already published, proven by {published.proof.value}"
    return f"{published_text}; to compare it by {requested_proof.value} now: {command}"


def move(plan: Plan, master: str, proof: Proof) -> None:
    """Move and validate the state of a claimed plan, in a new process for all of its steps."""
    with errors_in_report(plan):
        run_command_step(Step.RUN, ["--plan", places_of(plan).plan, "--proof", proof.value], master)


@contextmanager
def errors_in_report(plan: Plan) -> Iterator[None]:
    """If the block raises a final error, write the report of the plan, which then shows the error."""
    try:
        yield
    except RescaleError as error:
        if error.is_final:
            put_report(plan)
        raise
