"""User of a run, who follows its advice after the faults: runs again, discards, takes another target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from rescale.runstate.removal import discard
from rescale.text.errors import RescaleError
from simulation.bucket import BUCKET
from simulation.judge import Judge
from simulation.neighbours import own_names_below
from simulation.processes import Crash, Process
from simulation.promises import BrokenPromiseError, error_line, must, referenced_uris
from simulation.run import TARGET
from simulation.scene import DISCARD, PREPARERS, Scene
from simulation.supervisor import Ending
from simulation.toxics import Toxic

PUBLISHED, REFUSED = "published", "refused"

_TOO_LATE = "the files have names like those of a run, but no claim shows that they may be removed"
"""Error of a second discard, if a task of the run has put files after the first one."""
_IN_THE_WAY = "the target is occupied"
"""Error of a run whose target has files of another plan."""


class User:
    """The user; `order` shuffles the tasks of the steps that the user runs."""

    def __init__(self, scene: Scene, judge: Judge, order: Random) -> None:
        self._scene = scene
        self._judge = judge
        self._order = order

    def recover(self, ending: Ending) -> str:
        """Follow the advice, without further faults, until a result is published or none can be; return the outcome."""
        scene = self._scene
        if scene.owner is not None:
            scene.owner.take()
        if scene.is_owned() or (scene.script.discards and ending.error is not None):
            self._discard()
        first_occasion = "at once" if ending.tries == 5 else "after more tries"
        if ending.error is not None:
            first_occasion = "by the next run"
        was_published = scene.is_published(TARGET)
        source_is_damaged = any(kind.startswith("source") for kind in scene.events)
        for target, occasion in (
            (TARGET, first_occasion),
            (TARGET, "after discard"),
            (f"{TARGET}-2", "to another target"),
        ):
            wish = replace(scene.script.wish, target=target)
            process = self._run_process(f"user, {occasion}", scene.steps(wish, self._order).run_all)
            if process.error is None:
                must(scene.was_published(target), "a run says that it published, and did not")
                if target == TARGET and not was_published:
                    self._judge.check_open_uploads("behind a run that published", excepts_strangers=False)
                return f"{PUBLISHED} {occasion}"
            error = process.error
            if not isinstance(error, RescaleError) or not error.is_final:
                raise BrokenPromiseError(f"without any fault a run ends with {error_line(error)}")
            if source_is_damaged and occasion != first_occasion:
                return f"{REFUSED}: source damaged"
            if "rival" in scene.events and scene.is_published(TARGET):
                return f"{REFUSED}: another plan published"
            if scene.is_published(TARGET):
                is_excused = (
                    source_is_damaged or bool(scene.events & {"document rots", "discard"}) or self._was_misplanned()
                )
                must(is_excused, f"a published target is refused: {error_line(error)}")
                return f"{PUBLISHED}, what is beside or behind it was damaged"
            if scene.is_strict():
                raise BrokenPromiseError(f"without any fault the next run is refused: {error_line(error)}")
            if occasion == first_occasion:
                must(self._may_need_discard(), f"a run that could repair the damage was refused: {error_line(error)}")
                self._discard()
            elif not (
                scene.events & {"document rots", "release"}
                or scene.may_have_been_published()
                or (_IN_THE_WAY in str(error) and self._was_discarded_meanwhile())
            ):
                raise BrokenPromiseError(f"without any fault a run after discard is refused: {error_line(error)}")
        raise BrokenPromiseError(f"without any fault a run to another target is refused: {error_line(error)}")

    def discard_in_vain(self) -> None:
        """Check that a discard reports no success while all deletes are denied."""
        scene = self._scene
        scene.has_discarded = True
        scene.record_event("discard in vain")
        removed: list[str] = []
        process = self._run_process(f"{DISCARD} in vain", lambda: removed.extend(discard(TARGET).removed))
        remaining_uris = [f"s3://{BUCKET}/{key}" for key in scene.bucket.objects if key.startswith("target")]
        must(not {*removed} & {*remaining_uris}, "discard reports files as removed that are still there")
        if not any(line.startswith(f"{Toxic.MISSED_NAME}: {process.name}:") for line in scene.log):
            must(
                process.error is not None or not own_names_below(scene.bucket, "target.rescale"),
                "discard deletes nothing",
            )

    def delete_what_is_referred_to(self) -> None:
        """Delete a source file that the result refers to, and check that the next publish fails."""
        scene = self._scene
        uris = referenced_uris(scene.bucket.data_below("target")) if scene.is_published(TARGET) else []
        plan_keys = [key for key in scene.bucket.objects if key.startswith("target.rescale/plan-")]
        if not uris or len(plan_keys) != 1:
            return
        scene.bucket.remove(Random(f"owner of {scene.seed}").choice(uris).removeprefix(f"s3://{BUCKET}/"))
        scene.record_event("source deleted under a result")
        publish = scene.steps(scene.script.wish, self._order).body("publish", f"s3://{BUCKET}/{plan_keys[0]}")
        process = self._run_process("user, once more", publish)
        must(process.error is not None, "publish succeeds, although the result refers to a deleted file")

    def _discard(self) -> None:
        scene = self._scene
        scene.has_discarded = True
        for process in scene.processes:  # processes that still run, such as a rival, may go on after the discard
            process.is_lost |= not process.is_over
        crash_request_number = scene.random.randint(1, 30) if scene.random.random() < 0.5 else 0
        process = self._run_process(DISCARD, lambda: discard(TARGET), crash_request_number)
        if isinstance(process.error, Crash):
            process = self._run_process(f"{DISCARD} again", lambda: discard(TARGET))
        if process.error is None:
            self._judge.check_open_uploads("after discard", excepts_strangers=False)
            remaining_names = [
                *own_names_below(scene.bucket, "target"),
                *own_names_below(scene.bucket, "target.rescale"),
            ]
            if not scene.events & {"document rots", "rival", "discard", "release", *PREPARERS}:
                must(not remaining_names, f"discard leaves {remaining_names}")
        elif not (
            scene.events & {"document rots", "rival", "release"}
            or scene.may_have_been_published()
            or ("discard" in scene.events and _TOO_LATE in str(process.error))
        ):
            raise BrokenPromiseError(f"discard ends with {error_line(process.error)}")

    def _run_process(self, name: str, body: Callable[[], object], crash_request_number: int = 0) -> Process:
        """Run a process of the user to its end."""
        process = Process(name, body, crash_request_number=crash_request_number)
        self._scene.processes.append(process)
        process.go_on()
        self._scene.log.append(f"{name}: {'done' if process.error is None else error_line(process.error)}")
        return process

    def _may_need_discard(self) -> bool:
        """Return whether a discard may be needed; a run itself replaces cut and missing files, and validates again."""
        scene = self._scene
        repairable_events = {"result is cut or gone", "candidate rots", "certificate rots", "twin"}
        return Toxic.FLIPPED in scene.script.rates or scene.is_owned() or not scene.events <= repairable_events

    def _was_discarded_meanwhile(self) -> bool:
        """Return whether another process has discarded the run, so that files of later tasks have no claim."""
        return any(
            process.name.startswith("discard ") and process.is_over and process.error is None
            for process in self._scene.processes
        )

    def _was_misplanned(self) -> bool:
        """Return whether a misread may have changed the digest of a plan, but not the result of the plan."""
        return any(line.startswith(f"{Toxic.FLIPPED}: plan ") for line in self._scene.log)
