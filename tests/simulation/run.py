"""Steps of a run, each in a process that shares only the bucket with the others, and a run of all steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from rescale.execution.preparing import prepare_files
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state, validate_coverage
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.following.round_files import plan_of_copies
from rescale.plan.proof import Proof
from rescale.planning.continuing import continued_plan
from rescale.planning.prepare import prepare
from rescale.planning.request.request import Request, make_request
from rescale.planning.request.result_files import Files, Format
from rescale.planning.request.surgery_request import parse_surgery
from rescale.runstate.claim import claim
from rescale.runstate.documents import load_plan
from rescale.runstate.pinned_snapshots import open_base
from rescale.runstate.places import places_of
from rescale.runstate.preparation import begin_preparing, prepare_with_links, prepared_sizes
from rescale.runstate.publication import is_published, publish
from simulation.bucket import BUCKET
from simulation.processes import this_process

SOURCE, TARGET = f"s3://{BUCKET}/source", f"s3://{BUCKET}/target"
EARLIER, BASE = f"s3://{BUCKET}/earlier", f"s3://{BUCKET}/base"
"""An earlier checkpoint of the same job, and its result."""


@dataclass(frozen=True)
class Wish:
    """Request of a run.

    With a `base`, the run continues the base, and `files` says whether the result refers to files of the base.
    """

    parallelism: str
    max_parallelism: str
    target: str = TARGET
    format: Format = Format.KEEP
    files: Files = Files.COPY
    proof: Proof = Proof.RECORDS
    renames: tuple[str, ...] = ()
    drops: tuple[str, ...] = ()
    state_drops: tuple[str, ...] = ()
    source: str = SOURCE
    base: str = ""

    def __str__(self) -> str:
        shape = f"parallelism {self.parallelism or 'kept'}, max {self.max_parallelism or 'kept'}"
        usual_options = (Format.KEEP, Files.COPY, Proof.RECORDS)
        options = (self.format, self.files, self.proof)
        description = (
            shape
            if options == usual_options
            else f"{shape}, format {self.format}, files {self.files}, proof {self.proof}"
        )
        surgery = [
            *(f"rename {rename}" for rename in self.renames),
            *(f"drop {left_out}" for left_out in (*self.drops, *self.state_drops)),
        ]
        return ", ".join([description, *surgery])


@dataclass(frozen=True)
class Steps:
    """Steps of a run for a wish; `order` shuffles the tasks of a step, and `cores` draws the number of its cores."""

    wish: Wish
    order: Random
    cores: Random
    names_holder: bool = False
    """Whether the claim names its holder and time."""

    STAGES = (("plan",), ("reshuffle", "redistribute"), ("validate",), ("publish",))

    def body(self, step: str, plan_uri: str) -> Callable[[], Any]:
        """Return the body of a step. `plan` returns the plan's URI, which the other steps need as `plan_uri`."""
        return {
            "plan": self.plan,
            "reshuffle": lambda: reshuffle_keyed_state(load_plan(plan_uri), self._tasks()),
            "redistribute": lambda: redistribute_operator_state(load_plan(plan_uri), self._tasks()),
            "validate": lambda: validate_coverage(load_plan(plan_uri), self._tasks(), self.wish.proof),
            "publish": lambda: publish(load_plan(plan_uri)),
        }[step]

    def plan(self) -> str:
        planned = prepare(self._request())
        plan = planned.plan
        if self.wish.base:
            refers_to = self.wish.base if self.wish.files is Files.REFER else None
            plan = continued_plan(plan, planned.snapshot, open_base(self.wish.base, (SOURCE,)), refers_to=refers_to)
        if not is_published(plan):
            process = this_process()
            claim(plan, run_identity={"run": process.name} if self.names_holder and process is not None else None)
        return places_of(plan).plan

    def copy_ahead(self) -> None:
        """Copy files ahead, as `rescale run --prepare` or a follower does, if the result keeps files unchanged."""
        if self.wish.base:
            prepare_with_links(plan_of_copies(self.wish.base, self.wish.target), lambda _: None)
            return
        plan = prepare(self._request(), copies_ahead=True).plan
        if prepared_sizes(plan):
            begin_preparing(plan)
            prepare_files(plan, self._tasks())

    def _request(self) -> Request:
        wish = self.wish
        shape = [[number] if number else [] for number in (wish.parallelism, wish.max_parallelism)]
        return make_request(
            wish.source,
            wish.target,
            shape[0],
            max_parallelism=shape[1],
            format=wish.format,
            files=wish.files,
            allow_prefixes=[] if wish.source == SOURCE else [SOURCE],
            surgery=parse_surgery(renames=wish.renames, drops=wish.drops, state_drops=wish.state_drops),
        )

    def run_all(self) -> None:
        """Do all steps once, in this process; if the result is already published, only plan and publish."""
        plan_uri = self.plan()
        if not is_published(load_plan(plan_uri)):
            for step in ("reshuffle", "redistribute", "validate"):
                self.body(step, plan_uri)()
        self.body("publish", plan_uri)()

    def _tasks(self) -> InProcessTasks:
        return InProcessTasks(self.cores.randint(1, 4), self.order)
