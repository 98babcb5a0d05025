"""Bugs that show under lasting conditions (`weather`) or with surgery: refused deletes, short bodies, clocks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any

from botocore.exceptions import ClientError

from rescale.planning import planner
from rescale.planning.request import resolution
from rescale.planning.request.surgery import resolve_surgery
from rescale.snapshot.reading import opening
from rescale.snapshot.surgery import Surgery
from rescale.storage.locations import split_s3
from rescale.storage.s3.pinned_objects import PinnedObjects
from rescale.storage.s3.s3_store import S3Store
from simulation.bugs.planting import Bug, Planter, attribute_planter, with_changed_result

_seconds = count(1)


def _delete_in_silence(self: S3Store, uri: str) -> None:
    bucket, key = split_s3(uri)
    with suppress(ClientError):
        self._client.delete_object(Bucket=bucket, Key=key)


def _pad_short_body(
    self: PinnedObjects, uri: str, pin: Any, start: int = 0, length: int | None = None, limit: int | None = None
) -> Any:
    if length is None:
        return _read(self, uri, pin, start, length, limit)
    answer = self._get(uri, pin, start, length)
    data = answer["Body"].read()
    return data + bytes(length - len(data)), pin


_read = PinnedObjects.read


def _surgery_planter(change: Callable[[Surgery], Surgery]) -> Planter:
    return attribute_planter(resolution, "resolve_surgery", with_changed_result(resolve_surgery, change))


def _without_reread(work: Callable[[], Any], _: str | None = None) -> Any:
    return work()


BUGS = [
    Bug(
        "surgery: an operator misread once counts as unreadable",
        attribute_planter(opening, "read_again_on_failure", _without_reread),
    ),
    Bug("delete: a refusal is taken for success", attribute_planter(S3Store, "_delete", _delete_in_silence)),
    Bug("a body that ends early is filled up", attribute_planter(PinnedObjects, "read", _pad_short_body)),
    Bug(
        "plan: differs every second",
        attribute_planter(planner, "_creation_time", lambda _: next(_seconds)),
        native=True,
    ),
    Bug("surgery: renames are forgotten", _surgery_planter(lambda asked: replace(asked, renamed=()))),
    Bug("surgery: dropped operators stay", _surgery_planter(lambda asked: replace(asked, dropped=()))),
]
