"""The rounds of a follower beside its target, and the document that names the followed job."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Any

import msgspec

from rescale.runstate.documents import put_document, read_json
from rescale.runstate.follower.removal import delete_in_order
from rescale.runstate.places import cut_over_place, follower_place, rounds_place
from rescale.runstate.target_safety import check_documents
from rescale.snapshot.reading.discovery import METADATA
from rescale.storage.files.document_folders import DOCUMENTS_SUFFIX
from rescale.storage.locations import join
from rescale.storage.side_by_side import side_by_side
from rescale.storage.store import exists, open_store
from rescale.text.advice import Advice, command
from rescale.text.errors import RequestError
from rescale.text.names import quoted

KEPT_DOCUMENT_COUNT = 50
"""Number of rounds whose documents stay when their state is removed."""


UNKNOWN_CHECKPOINTS = "no directory"
"""Placeholder for the checkpoint directory of a job that was started again after a failed cut-over."""


@dataclass(frozen=True)
class FollowedJob:
    """A job that a follower follows: each round moves the job's newest state to a directory beside the target.

    `checkpoints` is the directory of the job's checkpoints; `options` are the options that set the result's shape, by
    name. After the job was started again, `checkpoints` is `UNKNOWN_CHECKPOINTS` until a follower of that start
    replaces it.
    """

    checkpoints: str
    options: Mapping[str, Any]


class RoundKind(StrEnum):
    """Kind of a round: the state that it moved."""

    BASE = "base"
    """The whole state: a full run."""

    ROUND = "round"
    """The changes since the previous round."""

    JOINED = "joined"
    """The changes since the anchor; the result replaces the rounds in between."""


@dataclass(frozen=True)
class Round:
    """A finished round.

    `root` is the checkpoint of the full run on which the round is based. `rows_written` counts the keys whose value was
    written, `rows_deleted` the keys that were deleted. Both are None for a base. `bytes_changed` counts the bytes
    written, without files copied from an earlier round. `taken` is the time of the checkpoint, in seconds since 1970.
    `seconds` is the duration of the round; None if the process was killed before it recorded the duration.
    `change_rate` is the number of bytes that the job changes per second, and `last_round_seconds` the predicted
    duration of a last round; None if unknown. `reason` says why a base or a joined round did not continue the newest
    round; None if unknown. In one round after each base, every record is compared, and all later rounds are based on
    that round. `compared` is the checkpoint of that round; None before that round.
    """

    number: int
    checkpoint: int
    kind: RoundKind
    root: int
    reason: str | None
    rows_deleted: int | None
    rows_written: int | None
    bytes_changed: int
    bytes_read: int
    change_rate: float | None
    taken: float | None
    seconds: float | None
    last_round_seconds: float | None
    compared: int | None = None

    @property
    def anchor(self) -> int:
        """Checkpoint of the round that a joined round continues: the one whose records were compared, or the root."""
        return self.root if self.compared is None else self.compared


def followed_job(target: str) -> FollowedJob | None:
    """Return the job of the target's follower; None if the target has no follower."""
    uri = follower_place(target)
    return read_json(uri, FollowedJob) if exists(uri) else None


def begin_following(target: str, job: FollowedJob, *, accept_unconditional: bool) -> None:
    """Record that the target's rounds belong to this job.

    Raises `RequestError` if they belong to another job, or have another shape.
    """
    uri, store, current_job = follower_place(target), open_store(target), followed_job(target)
    if current_job is None and not accept_unconditional:
        store.put_if_absent(uri, _job_document(job))
    elif current_job is None or current_job.checkpoints == UNKNOWN_CHECKPOINTS:
        store.put(uri, _job_document(job))
    refuse_another_job(target, job)


def end_following(target: str) -> None:
    """Keep the rounds for a follower of the restarted job, which may have another checkpoint directory and shape.

    Removes the decision on the cut-over, because the next cut-over needs another one. Does nothing if the target has no
    follower.
    """
    job, store = followed_job(target), open_store(target)
    if job is not None:
        if exists(cut_over_place(target)):
            store.delete([cut_over_place(target)])
        store.put(follower_place(target), _job_document(replace(job, checkpoints=UNKNOWN_CHECKPOINTS)))


def refuse_another_job(target: str, job: FollowedJob) -> None:
    """Raise `RequestError` unless the target's rounds belong to this job, for a result in this shape."""
    current_job = followed_job(target)
    if current_job == job:
        return
    advice = Advice("name another target, or remove what that follower left: ", command("discard", quoted(target)))
    if current_job is None:
        what = "this job is no longer followed: its target was finished, discarded or taken by another run"
    elif current_job.checkpoints == UNKNOWN_CHECKPOINTS:
        what = "this start of the job is no longer followed: the job was started again after its cut-over had failed"
        advice = Advice("follow the directory of checkpoints of the restarted job")
    else:
        what = "the target has a follower of another job, or of this job in another shape"
    raise RequestError(
        what,
        path=follower_place(target),
        expected=_describe_job(job),
        found=None
        if current_job is None or current_job.checkpoints == UNKNOWN_CHECKPOINTS
        else _describe_job(current_job),
        advice=advice,
    )


def refuse_followed_target(target: str) -> None:
    """Raise `RequestError` if the target has a follower: then only its last round may become the target's result.

    Any other run would publish another result, and the follower's rounds and pins would stay beside it. Every run
    except that of a follower calls this function before it writes anything.
    """
    check_documents(target)
    if (current_job := followed_job(target)) is not None:
        raise RequestError(
            "the target belongs to a follower, so no other run may use it",
            path=target,
            expected="a target without a follower",
            found=f"a follower of {_describe_job(current_job)}",
            advice=Advice(
                "name another target; or if you want the follower's result, finish the follower; or if you do not want "
                "it, remove its rounds: ",
                command("discard", quoted(target)),
            ),
        )


def round_target(target: str, checkpoint: int) -> str:
    """Return the target of the run that makes the round of a checkpoint."""
    return join(rounds_place(target), str(checkpoint))


def finished_round_checkpoints(target: str) -> list[int]:
    """Return the checkpoint numbers of the finished rounds, in ascending order."""
    place = rounds_place(target)
    store = open_store(place)
    folders = [folder for folder in store.folder_names(place) if re.fullmatch("[0-9]+", folder)]
    metadata_pins = store.stats([join(place, f"{folder}/{METADATA}") for folder in folders])
    return sorted(int(folder) for folder, pin in zip(folders, metadata_pins, strict=True) if pin is not None)


def newest_round(target: str, checkpoint_limit: float = inf) -> Round | None:
    """Return the newest finished round of a checkpoint below `checkpoint_limit`; None if there is none."""
    older_checkpoints = [
        checkpoint for checkpoint in finished_round_checkpoints(target) if checkpoint < checkpoint_limit
    ]
    return read_round(target, older_checkpoints[-1]) if older_checkpoints else None


def read_round(target: str, checkpoint: int) -> Round | None:
    """Return the round of a checkpoint; None if its document was not written."""
    uri = _document_place(target, checkpoint)
    return read_json(uri, Round) if exists(uri) else None


def write_round(target: str, finished_round: Round) -> None:
    put_document(_document_place(target, finished_round.checkpoint), msgspec.json.encode(finished_round))


def described_rounds(target: str) -> tuple[Round, ...]:
    """Return the last rounds that a follower made, in order; most of their results were removed."""
    place = rounds_place(target)
    documented_checkpoints = sorted(
        _documented_checkpoints(place, [entry.uri for entry in open_store(place).list(place)])
    )
    rounds = side_by_side(lambda number: read_round(target, number), documented_checkpoints[-KEPT_DOCUMENT_COUNT:])
    return tuple(made_round for made_round in rounds if made_round is not None)


def remove_rounds(
    target: str,
    *,
    kept_checkpoints: Collection[int],
    kept_uris: Collection[str] = (),
    kept_document_count: int = KEPT_DOCUMENT_COUNT,
) -> None:
    """Remove all rounds, finished or not, except those of `kept_checkpoints`, in the order of `delete_in_order`.

    `kept_uris` are files of removed rounds that stay, because a kept round refers to them. The documents of the last
    rounds stay, for the report; `kept_document_count` is their number.
    """
    place = rounds_place(target)
    store, kept_folders = open_store(place), {str(checkpoint) for checkpoint in kept_checkpoints}
    existing_uris = [entry.uri for entry in store.list(place)]
    numbers_newest_first = sorted(_documented_checkpoints(place, existing_uris), reverse=True)
    all_kept_uris = {
        *kept_uris,
        *(_document_place(target, number) for number in numbers_newest_first[:kept_document_count]),
    }
    unneeded_uris = [
        uri for uri in existing_uris if _checkpoint_in(place, uri) not in kept_folders and uri not in all_kept_uris
    ]
    for number in {_checkpoint_in(place, uri) for uri in unneeded_uris}:
        store.abort_parts(join(place, number), lambda _: True)
    delete_in_order(store, unneeded_uris)


def _checkpoint_in(place: str, uri: str) -> str:
    """Return the checkpoint number in the URI of a round's file: a file of its result, of its run, or its document."""
    first_part = uri.removeprefix(f"{place}/").partition("/")[0]
    return first_part.removesuffix(".json").removesuffix(DOCUMENTS_SUFFIX)


def _documented_checkpoints(place: str, uris: Iterable[str]) -> Iterator[int]:
    document_pattern = re.compile(rf"{re.escape(place)}/([0-9]+)\.json")
    return (int(match[1]) for uri in uris if (match := document_pattern.fullmatch(uri)))


def _document_place(target: str, checkpoint: int) -> str:
    return join(rounds_place(target), f"{checkpoint}.json")


def _describe_job(job: FollowedJob) -> str:
    options = [
        f"{option} {value if isinstance(value, str) else ' '.join(value)}"
        for option, value in job.options.items()
        if value
    ]
    is_between_starts = job.checkpoints == UNKNOWN_CHECKPOINTS
    return ", ".join(["a job that was started again" if is_between_starts else job.checkpoints, *options])


def _job_document(job: FollowedJob) -> bytes:
    return msgspec.json.format(msgspec.json.encode(job, order="deterministic"), indent=1)
