"""A history: one run, with events that are drawn from a seed, and the check that the promises hold.

The promises are:

* The target is published and right, or not published, whatever happens.
* The source is unchanged.
* No upload stays open after a publication or a discard.
* No fault is reported as a bug of Rescale.
* Transient faults end no run for good.
* After the faults, the next run publishes, reports the damage to the source, or asks the user to discard a damaged
  result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random

from rescale.plan.proof import Proof
from rescale.planning.request.result_files import Files
from rescale.runstate.removal import discard
from simulation.endless import EndlessError, limited_cpu_time
from simulation.installed import Sizes, install_release, installed_for_history
from simulation.judge import Judge
from simulation.model import sst_files
from simulation.neighbours import scratch_entries
from simulation.processes import Crash, Process
from simulation.promises import BrokenPromiseError, must
from simulation.rows import Kind, WrongError
from simulation.run import TARGET
from simulation.scene import Scene
from simulation.supervisor import Supervisor
from simulation.toxics import Client
from simulation.user import User

_LAST_FATAL_REQUEST = 80
"""Highest number of the request at which a process is killed or lost."""


@dataclass
class Verdict:
    """Verdict on a history: its outcome, the `broken_promise` if any, and a `log` of its events."""

    seed: int
    outcome: str
    event_counts: Counter[str]
    broken_promise: str | None
    log: list[str]


def play(seed: int) -> Verdict:
    """Play the history of a seed; call it within `with installed():`."""
    scene = Scene(seed)
    outcome, broken_promise, foreign_entries = "broken", None, scratch_entries()
    try:
        with limited_cpu_time():
            outcome = _History(scene).play()
            must(scratch_entries() == foreign_entries, "foreign files beside the scratch directories were touched")
    except (BrokenPromiseError, WrongError, EndlessError) as error:
        broken_promise = str(error)
    finally:
        for process in scene.processes:
            process.kill()
    _count_processes(scene)
    return Verdict(seed, outcome, scene.event_counts, broken_promise, scene.log)


def _count_processes(scene: Scene) -> None:
    scene.event_counts["process killed"] += sum(isinstance(process.error, Crash) for process in scene.processes)
    scene.event_counts["a job owns the result"] += scene.is_owned()
    scene.event_counts["process taken for dead"] += sum(process.is_lost for process in scene.processes)


class _History:
    """A run in a scene, and the faults and processes of its script."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._supervisor = Supervisor(
            scene.random, self._new_process, scene.log, self._before_stage, scene.script.longest_turn
        )

    def play(self) -> str:
        scene, script, supervisor = self._scene, self._scene.script, self._supervisor
        after_request = scene.owner.count_request if scene.owner is not None else None
        client, order = Client(scene.bucket, scene.toxics, after_request), Random(scene.random.random())
        sizes = Sizes(
            script.part_size, script.chunk_size, script.inline_limit, script.table_bytes, script.foreign_share
        )
        judge = Judge(scene)
        user = User(scene, judge, order)
        with installed_for_history(client, order, sizes, scene.clock):
            ending = supervisor.run(scene.steps(script.wish, order))
            judge.judge_run(ending)
            if not scene.comes_late():
                supervisor.end_others(kill=script.kills_others)
            supervisor.end_others(kill=script.kills_others, name_prefix="discard")
            judge.judge()
            if scene.toxics.deletes_are_denied and ending.error is not None:
                user.discard_in_vain()
            scene.toxics.end()
            outcome = user.recover(ending)
            judge.judge()
            if scene.comes_late():
                supervisor.end_others(kill=False)
                judge.judge()
            user.delete_what_is_referred_to()
        return outcome

    def _before_stage(self, stage: str) -> None:
        """Do the damage that the script plans before this stage."""
        script = self._scene.script
        for kind, planned_stage in script.damage.items():
            if (
                planned_stage == stage
                and self._is_possible(kind, stage)
                and self._scene.damage.inflict(kind, self._spared_keys(kind))
            ):
                self._scene.record_event(kind)
                if kind.startswith("source"):
                    self._scene.expected_source = self._scene.source_objects()
        if script.weather is not None:
            self._scene.toxics.deletes_are_denied |= script.weather.deletes_denied_from == stage
            if script.weather.release_stage == stage:
                install_release()
                self._scene.record_event("release")
        body_by_name = {
            "twin": self._scene.steps(script.wish, self._scene.random).run_all,
            "rival": self._scene.steps(script.other_wish, self._scene.random).run_all,
            "discard": lambda: discard(TARGET),
            "preparer": self._scene.steps(script.wish, self._scene.random).copy_ahead,
            "other preparer": self._scene.steps(script.other_wish, self._scene.random).copy_ahead,
        }
        for who, planned_stage in script.beside.items():
            if planned_stage == stage:
                self._scene.record_event(who)
                self._supervisor.others.append(self._new_process(who, body_by_name[who]))

    def _is_possible(self, kind: str, stage: str) -> bool:
        """Return whether the run can notice damage that is done before this stage.

        The run notices rot only until validation has read a file, and changes only until the result is published. This
        holds for files of the result, and for files of the source to which a result refers. They are only damaged
        before anything is published, and while no other process runs.
        """
        refers = any(wish.files is Files.REFER for wish in self._scene.requested_wishes)
        if kind == "source rots" and refers and stage == "publish":
            return False
        if kind.startswith("source") and not refers:
            return True
        return not (self._supervisor.others or self._scene.was_published(TARGET))

    def _spared_keys(self, kind: str) -> Collection[str]:
        """Return the keys that must not rot: SST files that a proof by files does not read."""
        by_files = any(wish.proof is Proof.FILES for wish in self._scene.requested_wishes)
        if kind != "source rots" or not by_files or self._scene.script.source.kind is not Kind.ROCKSDB:
            return ()
        return {f"source/{name}" for name in sst_files(self._scene.bucket.data_below("source"))}

    def _new_process(self, name: str, body: Callable[[], object]) -> Process:
        """Return a process that may be killed, or reported as dead although it is not."""
        self._scene.count_request()  # the job that owns the result may act before a new try begins
        random, script = self._scene.random, self._scene.script
        crash_request_number = lost_request_number = 0
        if random.random() < script.crash_rate:
            crash_request_number = random.randint(1, _LAST_FATAL_REQUEST)
        elif name not in script.beside and random.random() < script.loss_rate:
            lost_request_number = random.randint(1, _LAST_FATAL_REQUEST)
        try_number = sum(process.name.startswith(f"{name} ") for process in self._scene.processes) + 1
        process = Process(
            f"{name} {try_number}",
            body,
            crash_request_number=crash_request_number,
            crashes_after=random.random() < 0.5,
            lost_request_number=lost_request_number,
        )
        self._scene.processes.append(process)
        return process
