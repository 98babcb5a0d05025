"""Checks of a history's promises: those about the run under faults, and those that hold at any time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rescale.plan.prepared_name import PREPARED
from rescale.plan.proof import Proof
from rescale.text.errors import InternalError, as_rescale_error
from simulation.model import assert_certified
from simulation.neighbours import FOREIGN_AUTHOR, missing_or_changed_keys
from simulation.promises import BrokenPromiseError, assert_published, error_line, must
from simulation.run import TARGET, Wish
from simulation.scene import DISCARD, PREPARERS, Scene
from simulation.stored import StoredObject
from simulation.supervisor import Ending
from simulation.unread_bytes import unread_extents

_PLAN_DIGEST_FIELD = re.compile(rb'"plan": ?"([0-9a-f]{64})"')


class Judge:
    """Judge of a history, which raises a `BrokenPromiseError` or `WrongError` that names the broken promise."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._last_right: dict[str, tuple[dict[str, StoredObject], int, set[str]]] = {}
        """By folder of a result: objects, number of source versions and events when the result was last found right."""

    def judge_run(self, ending: Ending) -> None:
        """Check the promises about the run under faults."""
        error = ending.error
        if error is None:
            must(self._scene.was_published(TARGET), "a run says that it published, and did not")
            self.check_open_uploads("behind a run that published")
        elif error.is_final and self._scene.is_strict():
            raise BrokenPromiseError(f"a transient fault ended a run for good, at {ending.step}: {error_line(error)}")

    def judge(self) -> None:
        """Check the promises that hold at any time."""
        scene = self._scene
        for process in scene.processes:
            if isinstance(process.error, Exception):
                error = as_rescale_error(process.error)
                came_late = process.is_lost and scene.has_discarded
                if error.is_final and scene.is_strict() and not (came_late or process.name.startswith(DISCARD)):
                    raise BrokenPromiseError(f"a transient fault ended {process.name} for good: {error_line(error)}")
                if isinstance(error, InternalError):
                    raise BrokenPromiseError(f"{process.name} ends with a bug of Rescale: {error.traceback}")
        must(scene.source_objects() == scene.expected_source, "the source was touched")
        must(
            not (touched_keys := missing_or_changed_keys(scene.bucket)), f"foreign objects were touched: {touched_keys}"
        )
        must(not scene.bucket.deleted_versions, f"versions were deleted for good: {scene.bucket.deleted_versions}")
        if scene.owner is not None and (violation := scene.owner.violation()) is not None:
            raise BrokenPromiseError(violation)
        plan_digests = {name.split("-")[3] for name in scene.bucket.data_below("target") if name != "_metadata"} - {
            PREPARED
        }
        must(
            len(plan_digests) <= 1 or self._may_come_late() or bool(scene.events & {"discard", "release"}),
            f"files of several plans lie together: {plan_digests}",
        )
        for target in (TARGET, f"{TARGET}-2"):
            if scene.is_published(target):
                self._judge_published(target.rpartition("/")[2])

    def _judge_published(self, folder: str) -> None:
        """Check a published result, if anything has changed since it was last found right."""
        scene = self._scene
        wishes = [scene.script.wish, *([scene.script.other_wish] if "rival" in scene.events else [])]
        self._undo_unread_rot(folder, wishes)
        current_state = dict(scene.bucket.objects), len(scene.damage.source_versions), set(scene.events)
        if current_state == self._last_right.get(folder):
            return
        allows_strangers = self._may_come_late() or bool(scene.events & {"rival", "discard", "release", *PREPARERS})
        wish, source = assert_published(
            scene.bucket, folder, wishes, scene.damage.source_versions, allows_strangers=allows_strangers
        )
        certificate = scene.bucket.objects[f"{folder}.rescale/certificate.json"].data
        if "discard" not in scene.events and not self._came_late(certificate, folder):
            assert_certified(
                certificate,
                source,
                scene.bucket.data_below(folder),
                renames=wish.renames,
                drops=wish.drops,
                state_drops=wish.state_drops,
            )
        self._last_right[folder] = current_state

    def _may_come_late(self) -> bool:
        """Return whether a task of a discarded run may have put a file after the discard."""
        return self._scene.has_discarded and self._scene.comes_late()

    def _came_late(self, certificate: bytes, folder: str) -> bool:
        """Return whether the certificate is of a discarded run, not of the run that has the target now.

        A damaged certificate that names no plan counts as a certificate of the present run.
        """
        plan = _PLAN_DIGEST_FIELD.search(certificate)
        claim = self._scene.bucket.objects.get(f"{folder}.rescale/claim")
        if plan is None or claim is None or not self._may_come_late():
            return False
        return plan[1] not in claim.data

    def check_open_uploads(self, occasion: str, *, excepts_strangers: bool = True) -> None:
        """Check that no upload is open; `excepts_strangers` excepts lost processes and those beside the run."""
        scene = self._scene
        open_uploads = {
            upload.author: upload.key for upload in scene.bucket.uploads.values() if upload.author != FOREIGN_AUTHOR
        }
        if excepts_strangers:
            stranger_names = [p.name for p in scene.processes if p.is_lost or p.name.split()[0] in scene.script.beside]
            open_uploads = {author: key for author, key in open_uploads.items() if author not in stranger_names}
        must(not open_uploads, f"an upload stays open {occasion}: {open_uploads}")

    def _undo_unread_rot(self, folder: str, wishes: Sequence[Wish]) -> None:
        """Undo the rot of bytes that validation did not read, because the store's checksums proved them."""
        scene, objects = self._scene, self._scene.bucket.objects
        certificate_key = f"{folder}.rescale/certificate.json"
        if certificate_key not in objects or b'"checksums": {' not in objects[certificate_key].data:
            return
        must(any(wish.proof is not Proof.RECORDS for wish in wishes), "a proof by records used checksums")
        result = {name: objects[f"{folder}/{name}"] for name in scene.bucket.data_below(folder)}
        extents = unread_extents(
            objects[certificate_key].data, result, scene.damage.source_files, has_checksums=scene.bucket.has_checksums
        )
        scene.record_event("bytes proven by checksums")
        scene.damage.undo_rot({f"{folder}/{name}": extent for name, extent in extents.items()})
