"""`rescale plan`: show what a rescale would do."""

from __future__ import annotations

import argparse

from msgspec import structs

from rescale.cli.arguments import (
    add_base,
    add_cluster,
    add_request_options,
    add_source,
    add_target,
    cluster_of,
    prepared_plan_of,
)
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.options.profiles import add_profiles
from rescale.plan.plan import Plan
from rescale.report.pages.planned import plan_document, plan_page
from rescale.runstate.claim import refuse_unavailable_target
from rescale.runstate.follower.rounds import refuse_followed_target
from rescale.text.errors import RescaleError

SUMMARY = "show what a rescale would do; moves nothing"
DESCRIPTION = (
    "Shows which subtask would own which state, how many bytes move, and how even the new shape is. Writes nothing."
)
EXAMPLE = "rescale plan s3://flink/savepoint-1a2b --target s3://flink/new --parallelism visits=6"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_target(parser)
    add_base(parser)
    add_request_options(parser, "plan", "Operators are named as they are in SOURCE.", with_shape=True)
    add_cluster(parser)
    add_profiles(parser, "source", ("target", "base"))


def execute(arguments: argparse.Namespace, output: Output) -> None:
    cluster = cluster_of(arguments)
    with waiting(f"reading {arguments.source}"):
        plan, snapshot, kafka_sources = prepared_plan_of(arguments)
        target_error = _target_error(plan)
        error = None if target_error is None else target_error.document()
        document = structs.replace(plan_document(plan, snapshot, kafka_sources, cluster), refused=error)
    output.answer_page(document, plan_page)
    if target_error is not None:
        output.say(f"a run would refuse this plan: {target_error}")


def _target_error(plan: Plan) -> RescaleError | None:
    """Return the error with which a run would refuse the target as it is now; None if it could start or resume."""
    try:
        refuse_unavailable_target(plan)
        refuse_followed_target(plan.target)
    except RescaleError as error:
        return error
    return None
