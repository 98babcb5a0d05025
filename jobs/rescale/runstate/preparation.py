"""Preparation of a target: files of a running job's checkpoint are copied into it before any run claims it.

It may be repeated, for newer checkpoints of any job and for any request. The target is FREE meanwhile. A follower
prepares its target in the same way, with the SST files of its newest round, which its last round will take over.

    file                      written by                   means                          after a crash
    ------------------------  ---------------------------  -----------------------------  -----------------------------
    prepared.json             prepare or follow, first     the target is prepared; holds  the next preparation, or a
                                                           the plan of the last one       run, resumes
    …-prepared-… in the       prepare or follow, each      this file of a checkpoint, or  serves each plan that names
    target                    whole                        of a round, is copied          it
    copies.json               follow, after the copies     these copies were compared     the follower completes it
                                                           with their originals           after its next copies

The name of a prepared file determines its bytes (`plan.prepared_files`): every preparation and every run writes the
same bytes. A run into a prepared target names these files in its plan. It uses the files that exist, whichever
preparation copied them, and copies the missing ones. The run removes prepared files that are no part of its result:
before its candidate is compared, and again before it publishes. `validate` compares the content of prepared files like
that of all other files, except that the last round of a follower trusts `copies.json`. `discard` removes all prepared
files, then `prepared.json`.

A preparation ends by removing files of older checkpoints or rounds. It checks for a claim before each file that it
copies (a follower: before each batch of files) and before each request that deletes. If a run has claimed the target,
the preparation removes the files that it has copied, unless the claiming plan names them. If it is killed before that,
the run removes them. A file that is put after the run has published stays; no handle refers to it. A follower whose
target was discarded meanwhile removes its copies.

Limits. A process can be paused for any time between its check for a claim and its next request. If a preparation is
paused before it deletes a file, and meanwhile a run publishes a result with this file, the file is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from rescale.plan.new_streams import CopiedFile
from rescale.plan.plan import Plan, plan_to_json
from rescale.plan.prepared_files import prepared_piece
from rescale.runstate.claim import refuse_unavailable_target
from rescale.runstate.documents import load_plan, put_document
from rescale.runstate.follower.compared_copies import compare_copies
from rescale.runstate.places import Places, copies_place, is_prepared_file, prepared_place
from rescale.runstate.states import State, Transition, claim_on, digest_of_claim, permit
from rescale.runstate.target_safety import mark_documents
from rescale.storage.contract import Span
from rescale.storage.files.temporary_files import is_temporary
from rescale.storage.keeping import keep
from rescale.storage.locations import join, name
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import existing, exists, open_store
from rescale.text.errors import RequestError, SnapshotError
from rescale.text.units import counted, human_bytes

_FILES_BETWEEN_CHECKS = 100
"""Number of files that are deleted, or copied by a follower, between two checks for a claim on the target."""

_SECONDS_BETWEEN_LINES = 5.0
"""Shortest time between two lines about the progress of a follower's copies."""

_REMOVING_STATES = (State.CLAIMED, State.MOVED, State.CERTIFIED)
"""States of the target in which a run may remove prepared files that are not part of its result."""


def is_prepared(target: str) -> bool:
    """Return whether files were copied ahead into a target."""
    return exists(prepared_place(target))


def holds_only_prepared_files(target: str) -> bool:
    """Return whether a target holds no files, or only files that were copied ahead."""
    names = [name(entry.uri) for entry in open_store(target).list(target)]
    files = [file for file in names if not is_temporary(name(target), file)]
    return not files or (is_prepared(target) and all(map(is_prepared_file, files)))


def prepared_sizes(plan: Plan) -> dict[str, int]:
    """Return the sizes in bytes of the files that can be copied ahead, by their names in the target."""
    return {file: span.length for file, span in _prepared_spans(plan).items()}


def _prepared_spans(plan: Plan) -> dict[str, Span]:
    """Return the bytes of which each prepared file is a copy, by the file's name in the target."""
    spans = dict(plan.base_tables())
    for operator in plan.operators:
        for stream in operator.streams:
            if (piece := prepared_piece(stream)) is not None:
                file = plan.files[piece.file or 0]
                spans[plan.file_name(operator, stream)] = Span(file.uri, piece.start, piece.length, file.pin)
    return spans


def begin_preparing(plan: Plan) -> None:
    """Write the plan of a preparation beside its target, so that files may be copied into the target.

    Raises `RequestError` if a run has claimed the target, if the target holds files of other programs, or if the plan
    has no file that can be copied ahead.
    """
    if not prepared_sizes(plan):
        copied_files = (s for operator in plan.operators for s in operator.streams if isinstance(s, CopiedFile))
        has_tables = any(stream.local_name.endswith(".sst") for stream in copied_files)
        raise RequestError(
            "the result takes no SST file of the source as it is, so nothing can be copied ahead",
            path=plan.source,
            expected="RocksDB with incremental checkpoints, whose files are copied, and the same max parallelism",
            found="only SST files so small that they go into _metadata" if has_tables else "no SST file to copy",
            advice="run without a preparation; for another max parallelism, follow the job instead",
        )
    refuse_unavailable_target(plan)
    permit(plan, Transition.PREPARE)
    mark_documents(plan.target)
    put_document(prepared_place(plan.target), plan_to_json(plan))


def refuse_claimed(target: str) -> None:
    """Raise `RequestError` if a run has claimed the target, or it was discarded, since the preparation began."""
    if (claim := claim_on(target)) is not None:
        raise RequestError(
            "a run has claimed the target, so nothing more is copied ahead",
            path=target,
            found=claim,
            advice="that run copies what is missing",
        )
    if not is_prepared(target):
        raise RequestError("the target was discarded while files were copied into it", path=target)


def prepare_with_links(plan: Plan, report: Callable[[str], None]) -> None:
    """Make or repeat a whole preparation in this process: link the files, or let the store copy them.

    Copies only files that the target lacks, and calls `report` with lines about them. Then compares the copies
    (`compare_copies`). Raises the errors of `begin_preparing`. If the target is claimed or discarded meanwhile, removes
    new copies and raises `RequestError`.
    """
    store, spans = open_store(plan.target), _prepared_spans(plan)
    existing_sizes = {name(entry.uri): entry.size for entry in store.list(plan.target)}
    missing_files = [file for file, span in spans.items() if existing_sizes.get(file) != span.length]

    def keep_file(file: str) -> None:
        keep(join(plan.target, file), spans[file], Places(plan.target, "").staging)

    if spans and (missing_files or existing_sizes.keys() != spans.keys()):
        begin_preparing(plan)
        sizes = [spans[file].length for file in missing_files]
        files_text, size_text, last_line_time = (
            counted(len(missing_files), "file"),
            human_bytes(sum(sizes)),
            time.monotonic(),
        )
        if missing_files:
            report(f"copying {files_text} ahead into the target, {size_text}")
        try:
            for start in range(0, len(missing_files), _FILES_BETWEEN_CHECKS):
                if start and time.monotonic() - last_line_time >= _SECONDS_BETWEEN_LINES:
                    last_line_time = time.monotonic()
                    report(
                        f"{start:,} of {files_text} are copied ahead, {human_bytes(sum(sizes[:start]))} of {size_text}"
                    )
                refuse_claimed(plan.target)
                side_by_side(keep_file, missing_files[start : start + _FILES_BETWEEN_CHECKS])
            end_preparing(plan)
        finally:
            give_up_preparing(plan, existing_sizes)
    compare_copies(plan.target, spans)


def remove_preparation(target: str) -> None:
    """Remove the files that were copied ahead into a target, unless a run has claimed it. The call can be repeated."""
    if digest_of_claim(target) is None:
        store = open_store(target)
        store.delete(_unused_files(target, ()) if is_prepared(target) else [])
        store.delete(existing([copies_place(target), prepared_place(target)]))


def end_preparing(plan: Plan) -> None:
    """Remove the prepared files of older checkpoints: those that a result of this plan would not contain.

    Raises `RequestError` if the target was claimed or discarded since the preparation began.
    """
    unused_files = _unused_files(plan.target, prepared_sizes(plan))
    for start in range(0, len(unused_files), _FILES_BETWEEN_CHECKS):
        refuse_claimed(plan.target)
        open_store(plan.target).delete(unused_files[start : start + _FILES_BETWEEN_CHECKS])
    refuse_claimed(plan.target)


def give_up_preparing(plan: Plan, names_before: Collection[str]) -> None:
    """If a run has claimed the target, or it was discarded, remove the files that this preparation has copied.

    These are files of this plan that are not in `names_before`, and that the claiming plan does not name. If the
    claiming plan was made before the target was prepared, `prepared.json` is removed, too: with it, the same command
    would make another plan. All files are kept if the claiming plan cannot be read, for example because another version
    of Rescale wrote it.
    """
    claiming_digest = digest_of_claim(plan.target)
    if claiming_digest is None and is_prepared(plan.target):
        return
    claimed_sizes: Mapping[str, int] = {}
    gives_way = False
    if claiming_digest is not None:
        try:
            claiming_plan = load_plan(Places(plan.target, claiming_digest).plan)
        except SnapshotError:
            return
        claimed_sizes = prepared_sizes(claiming_plan) if claiming_plan.prepared else {}
        gives_way = not claiming_plan.prepared
    new_files = [file for file in prepared_sizes(plan) if file not in names_before and file not in claimed_sizes]
    store = open_store(plan.target)
    existing_names = {name(entry.uri) for entry in store.list(plan.target)}
    store.delete([join(plan.target, file) for file in new_files if file in existing_names])
    if gives_way:
        _forget_preparation(plan.target)


def remove_unused_files(plan: Plan) -> None:
    """Remove the prepared files that are not part of a run's result, before the run publishes it.

    If the plan was made before the target was prepared, `prepared.json` is removed, too, as in `give_up_preparing`.
    """
    if (plan.prepared or is_prepared(plan.target)) and permit(plan, Transition.CERTIFY) in _REMOVING_STATES:
        used_names = prepared_sizes(plan) if plan.prepared else ()
        open_store(plan.target).delete(_unused_files(plan.target, used_names))
        if not plan.prepared:
            _forget_preparation(plan.target)


def _forget_preparation(target: str) -> None:
    """Remove `prepared.json`, after the prepared files: without it, they would count as files of another program."""
    open_store(target).delete(existing([prepared_place(target)]))


def _unused_files(target: str, used_names: Collection[str]) -> list[str]:
    entries = open_store(target).list(target)
    return [entry.uri for entry in entries if is_prepared_file(name(entry.uri)) and name(entry.uri) not in used_names]
