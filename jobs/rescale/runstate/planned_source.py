"""Opens the source of a plan, and refuses a source that has changed since."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.plan.plan import Plan
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_candidate
from rescale.text.errors import SnapshotError


def open_pinned(plan: Plan, allow_prefixes: Sequence[str] = ()) -> Snapshot:
    """Open the source. Raises `SnapshotError` unless its metadata and files are those of the plan.

    `allow_prefixes` are more places outside of the source in which its files may be.
    """
    prefixes, dropped = (*plan.allow_prefixes, *allow_prefixes), plan.surgery.dropped_ids
    source = open_candidate(plan.files[0].uri, plan.source, prefixes, given_up=dropped, moves=plan.moves)
    refuse_another_source(source, plan)
    planned_pins = {file.uri: file.pin for file in plan.files}
    for uri, pin in source.files:
        if pin.matches(planned_pins.get(uri)):
            continue
        if uri in source.missing:
            raise SnapshotError(
                "a file of the source was deleted after the plan was made",
                path=uri,
                expected=planned_pins.get(uri),
                advice="make sure that nothing deletes files of the source, and start again",
            )
        raise SnapshotError(
            "a file of the source has changed since the plan was made",
            path=uri,
            expected=planned_pins.get(uri),
            found=pin,
            advice="make sure that nothing writes to the source, and plan again",
        )
    return source


def refuse_another_source(snapshot: Snapshot, plan: Plan) -> None:
    """Raise `SnapshotError` if the snapshot is not the one that the plan was made for."""
    if snapshot.metadata_sha256 != plan.metadata_sha256:
        raise SnapshotError(
            "the source is not the snapshot that the plan was made for",
            path=snapshot.metadata_uri,
            expected=f"SHA-256 {plan.metadata_sha256}",
            found=f"SHA-256 {snapshot.metadata_sha256}",
            advice="plan again",
        )
