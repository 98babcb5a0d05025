"""Checks of a target: try all store operations of a run on small files (probes), and remove them afterwards.

The probes lie beside the documents of a run, in `<target>.rescale`; the target itself does not change.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rescale.doctor.checks import CheckList, result_text
from rescale.runstate.claim import WITHOUT_CONDITIONS_ADVICE
from rescale.runstate.places import claim_place, probe_place, run_directory
from rescale.runstate.target_safety import check_documents, refuse_misplaced, refuse_overlap, refuse_place_of_documents
from rescale.storage.contract import CopyRefused, Span
from rescale.storage.files import owned
from rescale.storage.files.document_folders import STAGING
from rescale.storage.locations import is_s3, join
from rescale.storage.sides import is_one_store
from rescale.storage.store import Store, existing, open_store
from rescale.text.advice import Advice, command
from rescale.text.errors import LockedError, RequestError, RescaleError
from rescale.text.names import quoted
from rescale.text.units import counted

MOST_SKEW_SECONDS = 60
"""Largest difference between the clocks of this machine and the store without a warning; S3 allows up to 15 minutes."""

_SUBJECT = "target"


def check_target(checks: CheckList, target: str, source: str | None) -> None:
    """Try all store operations of a run in the target's store."""
    checks.unreachable = False
    source = None if source is None else source.removesuffix("/_metadata")
    with checks.trying(_SUBJECT, f"look at {run_directory(target)}", "a run puts its documents there"):
        if source is not None:
            refuse_overlap(source, target)
        refuse_place_of_documents(target)
        check_documents(target)
        refuse_misplaced(target)
        folder = Path(run_directory(target))
        missing_folders = [] if is_s3(target) else [path for path in (folder, *folder.parents) if not path.exists()]
        try:
            _Probes(checks, target, source).check()
        finally:
            for missing_folder in missing_folders:
                owned.remove_folder(missing_folder)


class _Probes:
    """Probes of one target, with names that no other process uses."""

    def __init__(self, checks: CheckList, target: str, source: str | None) -> None:
        name = uuid.uuid4().hex
        self._source = source
        self._checks = checks
        self._target = target
        self._store: Store = open_store(target)
        self._data = name.encode()
        self._put_uri, self._conditional_uri, self._copy_uri, self._parts_uri = (
            probe_place(target, f"{name}-{operation}") for operation in ("put", "conditional", "copy", "parts")
        )
        self._is_put = False
        self._trying = partial(checks.trying, _SUBJECT)

    def check(self) -> None:
        """Try all operations; remove the probes in any case."""
        try:
            steps = (
                self._check_list,
                self._check_put,
                self._check_put_if_absent,
                self._check_read,
                self._check_copy,
                self._check_parts,
                self._check_clock,
            )
            for step in steps:
                if not self._checks.unreachable:
                    step()
        finally:
            if not self._checks.unreachable or self._is_put:
                self._check_delete()

    def _check_list(self) -> None:
        with self._trying(f"list {self._target}", "a run refuses a target that holds other files") as check:
            files = self._store.list(self._target)
            is_claimed = self._store.stat(claim_place(self._target)) is not None
            if is_claimed:
                meaning = "a run has claimed the target: only the same plan can continue there"
                advice = Advice(
                    "continue with the same plan, name another target, or ", command("discard", quoted(self._target))
                )
                check.warn(counted(len(files), "file"), meaning, advice)
            elif files:
                meaning = "a run would refuse the target, because it is not empty"
                check.warn(counted(len(files), "file"), meaning, "name another target")
            else:
                check.ok("no files", "the target can be listed, and is free")

    def _check_put(self) -> None:
        with self._trying("put a probe", "a run cannot write") as check:
            self._store.put(self._put_uri, self._data)
            self._is_put = True
            check.ok(counted(len(self._data), "byte"), "a run can write")

    def _check_put_if_absent(self) -> None:
        with self._trying(
            "put a probe if it is absent, twice", "a run claims its target, and publishes, with such a put"
        ) as check:
            if not self._store.put_if_absent(self._conditional_uri, self._data):
                meaning = "the store refuses the condition although there is no such file, so no run can claim a target"
                check.fail("the first was refused", meaning, WITHOUT_CONDITIONS_ADVICE)
            elif not self._store.honours_conditions(self._conditional_uri, self._data):
                meaning = "the store ignores the condition, so two runs could overwrite each other"
                check.fail("the store accepted both", meaning, WITHOUT_CONDITIONS_ADVICE)
            else:
                check.ok("the second was refused", "two runs cannot have the same target")

    def _check_read(self) -> None:
        if not self._is_put:
            return
        with self._trying("read the probe", "validation reads every byte of a result back") as check:
            data, _ = self._store.read_all(self._put_uri, len(self._data))
            if data == self._data:
                check.ok("the bytes that were put", "validation can read a result back")
            else:
                meaning = "the store does not return the bytes that were put"
                check.fail(f"{len(data)} other bytes", meaning, "ask the store's operator")

    def _check_copy(self) -> None:
        uri, tried = self._put_uri, "copy the probe within the store"
        if self._source is not None and is_s3(self._source) and is_one_store(self._source, self._target):
            uri, tried = join(self._source, "_metadata"), "copy _metadata of the source within the store"
        with self._trying(tried, "state that does not change is copied by the store") as check:
            pin = self._store.stat(uri)
            if pin is None:  # `check_source` or `_check_put` has already reported that the file is missing
                return
            try:
                self._store.copy(self._copy_uri, Span(uri, 0, pin.size, pin))
            except CopyRefused as refused:
                meaning = "all state passes through Rescale's processes instead, which takes longer"
                advice = "allow CopyObject and UploadPartCopy if the store has them"
                check.warn(f"refused: {refused}", meaning, advice)
            else:
                check.ok("copied", "state that does not change need not pass through Rescale's processes")

    def _check_parts(self) -> None:
        staging = join(run_directory(self._target), STAGING)
        with self._trying(
            "write a probe in parts, and abort another such upload",
            "a run writes large files in parts, and aborts uploads that were left open",
        ) as check:
            self._store.begin_parts(self._parts_uri, staging)
            self._store.abort_parts(self._parts_uri)
            upload_id = self._store.begin_parts(self._parts_uri, staging)
            try:
                receipt = self._store.put_part(self._parts_uri, upload_id, 1, 0, self._data)
                self._store.complete_parts(self._parts_uri, upload_id, [receipt], len(self._data))
            except RescaleError:
                self._abandon(upload_id)
                raise
            pin = self._store.stat(self._parts_uri)
            if pin is None or pin.size != len(self._data):
                check.fail(f"found: {pin}", "the store does not put parts together", "ask the store's operator")
            else:
                check.ok("the probe is whole", "a run can write large files")

    def _abandon(self, upload_id: str) -> None:
        """Remove the parts of an unfinished upload; ignore errors of the store."""
        with suppress(RescaleError):
            self._store.abort_parts(self._parts_uri)
            if not is_s3(self._target):  # the id of a local upload is the path of its file
                self._store.delete([upload_id])

    def _check_clock(self) -> None:
        if not self._is_put:
            return
        with self._trying(
            "compare the clock of this machine with the time of the probe",
            "S3 refuses requests of a machine whose clock is wrong",
        ) as check:
            write_time = self._store.modification_time(self._put_uri)
            if write_time is None:
                raise RequestError("the probe is gone", path=self._put_uri, advice="find out who deletes files there")
            skew_seconds = (datetime.now(UTC) - write_time).total_seconds()
            result = (
                f"{abs(skew_seconds):.0f} s {'ahead' if skew_seconds > 0 else 'behind'}"
                if abs(skew_seconds) >= 1
                else "less than 1 s"
            )
            if abs(skew_seconds) > MOST_SKEW_SECONDS:
                meaning = "S3 refuses requests when the clocks differ by 15 minutes, and times in reports are wrong"
                check.warn(result, meaning, "let NTP set the clock of this machine")
            else:
                check.ok(result, "the clocks agree")

    def _check_delete(self) -> None:
        probe_uris = (self._put_uri, self._conditional_uri, self._copy_uri, self._parts_uri)
        with self._trying(
            f"delete the probes in {run_directory(self._target)}",
            "discard, and a run that resumes, delete what a run has put",
        ) as check:
            existing_uris = existing(probe_uris)
            try:
                self._store.delete(existing_uris)
            except LockedError as error:
                meaning = "a run publishes all the same, and its leftovers stay until the lock ends"
                check.warn(result_text(error), meaning, None)
                return
            if remaining_uris := existing(existing_uris):
                check.fail(
                    f"still there: {', '.join(remaining_uris)}", "the store does not delete", "delete them yourself"
                )
            elif existing_uris:
                check.ok(f"{counted(len(existing_uris), 'probe')} deleted", "discard can remove what a run leaves")
