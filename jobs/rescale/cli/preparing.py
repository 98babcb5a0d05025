"""`rescale run --prepare`: copy files of a running job's newest checkpoint into the target."""

from __future__ import annotations

import argparse

from msgspec import structs

from rescale.cli.arguments import request_of
from rescale.cli.command_steps import run_command_step
from rescale.cli.output import Output
from rescale.cli.terminal import waiting
from rescale.plan.plan import Plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import Request
from rescale.report.documents import Preparation
from rescale.report.step_results import PreparedFiles
from rescale.runstate.follower.rounds import refuse_followed_target
from rescale.runstate.places import prepared_place
from rescale.runstate.preparation import begin_preparing
from rescale.runstate.step import Step
from rescale.text.errors import RequestError, SnapshotError
from rescale.text.units import counted, human_bytes

_MOST_ATTEMPTS = 5
"""Number of attempts to copy files of the newest checkpoint before Flink deletes it."""


def execute_preparation(arguments: argparse.Namespace, output: Output) -> None:
    if arguments.base is not None:
        raise RequestError(
            "a result that continues a base takes the base's files, so none are copied ahead",
            expected="either --prepare or --base",
            found="both options",
        )
    preparation = _copy_ahead(request_of(arguments), output, arguments.master)
    output.answer(preparation, lambda: _preparation_text(preparation))


def _copy_ahead(request: Request, output: Output, master: str) -> Preparation:
    """Copy files of the source ahead. If Flink deletes the checkpoint during that, continue with the newest one."""
    refuse_followed_target(request.target)
    plan = _plan_ahead(request)
    for attempt in range(1, _MOST_ATTEMPTS + 1):
        begin_preparing(plan)
        try:
            result = run_command_step(Step.PREPARE, ["--plan", prepared_place(plan.target)], master)
        except SnapshotError as error:
            newest_plan = _plan_ahead(request)
            if attempt == _MOST_ATTEMPTS or newest_plan.source == plan.source:
                raise
            output.say(f"{plan.source} is gone: {error.what}; trying the newest checkpoint")
            plan = newest_plan
        else:
            prepared_files = result.read(PreparedFiles)
            bytes_left = plan.bytes_moved - prepared_files.bytes
            return Preparation(plan.target, plan.source, **structs.asdict(prepared_files), bytes_left=bytes_left)
    raise AssertionError


def _plan_ahead(request: Request) -> Plan:
    with waiting(f"reading {request.source}"):
        return prepare(request, copies_ahead=True).plan


def _preparation_text(document: Preparation) -> str:
    files_text = f"{counted(document.files, 'SST file')} of {document.source}, {human_bytes(document.bytes)}"
    new_files_text = (
        f"{counted(document.new_files, 'of them is', 'of them are')} new, {human_bytes(document.new_bytes)}"
    )
    return "\n".join(
        (
            f"{document.target} is prepared: it has {files_text}",
            f"{new_files_text}; a run from this checkpoint would still write {human_bytes(document.bytes_left)}",
            "repeat this for newer checkpoints; then run from the last one without --prepare",
        )
    )
