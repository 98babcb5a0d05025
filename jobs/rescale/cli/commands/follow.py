"""`rescale follow`: move the changes of a running job's checkpoints, so that little is left to move when it stops."""

from __future__ import annotations

import argparse
import re
from contextlib import nullcontext
from functools import partial

from rescale.cli.arguments import add_master, add_request_options, add_target
from rescale.cli.command_steps import lasting_mover
from rescale.cli.commands.run import carry_out, errors_in_report, move
from rescale.cli.consent import confirm_mixed_maxima
from rescale.cli.output import Output
from rescale.cli.run_name import name_of_this_run
from rescale.cli.terminal import waiting
from rescale.following.follower import Follower
from rescale.following.limits import Limits
from rescale.following.round_line import round_document, round_line
from rescale.insight.cluster import rate_of
from rescale.options.command_line import values_of
from rescale.options.profiles import add_profiles
from rescale.options.rows import OPTIONS, ROUND_OPTION_NAMES
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.planning.request.operator_shapes import refuse_result_in_another_shape
from rescale.planning.request.request import make_request, target_place
from rescale.report.pages.outcome import outcome, outcome_page
from rescale.runstate.follower.removal import remove_follower
from rescale.runstate.follower.rounds import FollowedJob, Round, RoundKind, described_rounds, followed_job
from rescale.runstate.publication import publish, published_plan
from rescale.runstate.states import refuse_unpublished
from rescale.snapshot.reading.discovery import complete_checkpoints
from rescale.storage.files import owned
from rescale.storage.locations import contains, is_s3, normalise
from rescale.text.errors import RequestError, in_option

SUMMARY = "move a running job's checkpoints, round after round"
DESCRIPTION = (
    "Moves all state of the job's newest checkpoint once (the base), and then for each newer checkpoint only the "
    "changes (a round). After the job was cancelled, --finish moves the last changes, and publishes the result as "
    "TARGET. The same command resumes a follower that was stopped or killed."
)
EXAMPLE = "rescale follow s3://flink/checkpoints/JOB-ID --target s3://flink/new --max-parallelism 1000"

RESUMES = True
"""Whether the same command resumes the work after an interruption."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "checkpoints",
        metavar="CHECKPOINTS",
        help="the directory with the job's checkpoints (chk-N): a path, file: or s3:// (s3a://, s3p:// too)",
    )
    add_target(parser)
    add_request_options(parser, "follow", with_shape=True)
    add_master(parser)
    add_profiles(parser, "checkpoints", ("target",))
    parser.add_argument("--yes", action="store_true", help="give operators different max parallelisms without asking")


def execute(arguments: argparse.Namespace, output: Output) -> None:
    checkpoints, target = normalise(arguments.checkpoints), target_place(arguments.target)
    if not arguments.finish:
        output.use_json_lines()
    round_limits = _round_limits(arguments)
    if not is_s3(checkpoints):
        owned.protect([checkpoints])
    if arguments.finish and (finished_plan := published_plan(target)) is not None:
        _finish_published(finished_plan, arguments, output)
        return
    job = _job_of(arguments, checkpoints, target)
    with nullcontext() if arguments.finish else lasting_mover(arguments.master) as move_round:

        def move_plan(plan: Plan, proof: Proof) -> None:
            """Move changes in the lasting process. To move or compare all records, use a process of its own."""
            if proof is not Proof.CHANGES or move_round is None:
                if plan.continued is None:
                    confirm_mixed_maxima(plan.mixed_maxima, output, is_confirmed=arguments.yes)
                move(plan, arguments.master, proof)
                return
            with errors_in_report(plan):
                move_round(plan, proof)

        follower = Follower(
            target, job, name_of_this_run(), move_plan, output.say, arguments.accept_unconditional_publish
        )
        if arguments.finish:
            _finish(follower, arguments.master, output, is_confirmed=arguments.yes)
        else:
            follower.follow(round_limits, partial(_print_round, output))


def _print_round(output: Output, finished_round: Round, waits_for: str) -> None:
    output.answer(round_document(finished_round, waits_for), lambda: round_line(finished_round, waits_for))


def _finish(follower: Follower, master: str, output: Output, *, is_confirmed: bool) -> None:
    with waiting(f"reading {follower.job.checkpoints}"):
        follower.take_over()
        planned = follower.plan_last()
    if planned.reason is not None:
        moved_state = "all state" if planned.kind is RoundKind.BASE else "all changes since the base"
        output.say(
            f"the last round moves {moved_state}, because it cannot continue the round before it: {planned.reason}"
        )
    rounds, plan = described_rounds(follower.target), planned.prepared.plan
    with follower.finishing(planned):
        carry_out(
            planned.prepared,
            output,
            master,
            planned.proof,
            accept_unconditional=follower.accept_unconditional,
            is_last_round=True,
            is_confirmed=is_confirmed or bool(rounds),  # the user approved the max parallelisms for the first round
            rounds=rounds,
            before_publishing=lambda: _refuse_outdated(plan, follower.job.checkpoints, is_published=False),
        )
    remove_follower(follower.target)


def _refuse_outdated(plan: Plan, checkpoints: str, *, is_published: bool) -> None:
    """Raise `RequestError` if the directory `checkpoints` has a checkpoint that is newer than that of the result."""
    newest_numbers = complete_checkpoints(checkpoints)[-1:]
    if newest_numbers <= [plan.checkpoint_id]:
        return
    outdated_clause = (
        "there is a checkpoint after that of the result, so a job started from the result would repeat work"
    )
    raise RequestError(
        f"the result is published, but {outdated_clause}" if is_published else outdated_clause,
        path=plan.target,
        expected=f"checkpoint {plan.checkpoint_id} as the newest one in {checkpoints}",
        found=f"checkpoint {newest_numbers[0]}",
        advice="if the job was already started from the result, nothing is left to do; otherwise cancel it if it still "
        "runs, and name another target"
        if is_published
        else "cancel the job if it still runs; then repeat this command",
    )


def _finish_published(plan: Plan, arguments: argparse.Namespace, output: Output) -> None:
    """Remove the files that a `--finish` left if it was killed after it had published; then print its outcome.

    Raises `RequestError`, before anything is removed, if the result belongs to another job or has another shape. Also
    raises it, after the removal, if the job has made a later checkpoint, or if the result is gone.
    """
    checkpoints = normalise(arguments.checkpoints)
    if not contains(checkpoints, plan.source):
        raise RequestError(
            "the target holds a result from another directory of checkpoints",
            path=plan.target,
            expected=f"a result from the newest checkpoint in {checkpoints}",
            found=plan.source,
            advice="name another target",
        )
    max_parallelisms = arguments.max_parallelism
    request = make_request(plan.source, plan.target, arguments.parallelism, max_parallelism=max_parallelisms)
    refuse_result_in_another_shape(plan, request)
    remove_follower(plan.target)
    _refuse_outdated(plan, checkpoints, is_published=True)
    refuse_unpublished(plan.target)
    document = outcome(plan, publish(plan, accept_unconditional=arguments.accept_unconditional_publish))
    output.answer_page(document, outcome_page)


def _job_of(arguments: argparse.Namespace, checkpoints: str, target: str) -> FollowedJob:
    """Return the job to follow, in the shape of the options; without them, in the shape of the existing follower."""
    option_values = values_of(arguments, "follow")
    job = FollowedJob(checkpoints, {name: option_values[name] for name in ROUND_OPTION_NAMES})
    unset_values = {row.name: row.unset_value for row in OPTIONS}
    if all(job.options[name] == unset_values[name] for name in ROUND_OPTION_NAMES):
        current_job = followed_job(target)
        if current_job is not None:
            return FollowedJob(checkpoints, current_job.options)
        if arguments.finish:
            raise RequestError(
                "the target has no follower that could be finished",
                path=target,
                expected="files of `rescale follow CHECKPOINTS --target TARGET`",
                advice="start the follower while the job runs; if the job has ended, use rescale run with its last "
                "checkpoint",
            )
    return job


def _round_limits(arguments: argparse.Namespace) -> Limits:
    pause_above = arguments.pause_above
    return Limits(
        _number_of_rounds("--max-rounds", arguments.max_rounds, least_number=0),
        _number_of_rounds("--publish-every", arguments.publish_every, least_number=1),
        None if pause_above is None else rate_of(pause_above, "--pause-above"),
    )


def _number_of_rounds(flag: str, text: str | None, *, least_number: int) -> int | None:
    if text is None:
        return None
    with in_option(flag):
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least_number:
            raise RequestError("this is not a number of rounds", expected=f"{least_number} or more", found=text)
    return int(text)
