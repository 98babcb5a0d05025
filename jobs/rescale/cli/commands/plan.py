"""`rescale plan`: what a rescale would do."""

from __future__ import annotations

import argparse

from rescale.cli.arguments import add_cluster, add_shape, add_source, add_uids, asked_cluster, prepared
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.errors import RescaleError
from rescale.planning.values.plan import Plan
from rescale.report.pages.planned import plan_document, plan_text
from rescale.target.claim import refuse_taken

SUMMARY = "what a rescale would do; moves nothing"
DESCRIPTION = "Shows who would own what, how many bytes move, and how even the new shape is. Writes nothing."
EXAMPLE = "rescale plan s3://flink/savepoint-1a2b --target s3://flink/new --parallelism visits=6"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_source(parser)
    add_shape(parser)
    add_uids(parser)
    add_cluster(parser)


def execute(arguments: argparse.Namespace, output: Output) -> None:
    cluster = asked_cluster(arguments)
    with waiting(f"reading {arguments.source}"):
        plan, snapshot, kafka = prepared(arguments)
        refused = _refused(plan)
        told = None if refused is None else refused.to_json()
        document = {**plan_document(plan, snapshot, kafka, cluster), "refused": told}
    output.answer(document, lambda: plan_text(document))
    if refused is not None:
        output.say(f"as it is now, a run would be refused: {refused}")


def _refused(plan: Plan) -> RescaleError | None:
    """What a run would say that cannot begin, or go on, in the target as it is now."""
    try:
        refuse_taken(plan)
    except RescaleError as error:
        return error
    return None
