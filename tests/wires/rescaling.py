"""A whole run through a proxy that disturbs requests, and the check of its promises.

The run publishes a right result, or ends with exit code 1 and publishes nothing; without the proxy, the same command
then publishes. Sometimes the files of the failed run are discarded first, after which no file and no multipart upload
is left. No request writes or deletes anything outside of the target and the directory beside it. A right result has the
bytes of an undisturbed run of the same request.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Lock
from typing import TYPE_CHECKING
from unittest.mock import patch

from big_savepoint import write_savepoint
from support.s3 import S3Server, s3_server
from support.snapshots import directory
from support.wire import Treatment, WireRequest, wire_to
from wires.mishaps import Mishap, Mishaps
from wires.processes import Rescale

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_BUCKET = "wires"
_TRIES = 2
"""Highest number of disturbed runs of the same command."""

_DISCARDS = 3
"""Highest number of disturbed discards; if all of them fail, one is made without the proxy."""

_DISCARDING = 0.5
"""Probability that the files of a failed run are discarded."""

_BIG = "big"
_BIG_BYTES = 400_000


@dataclass(frozen=True)
class RunRequest:
    """Source of a rescale, and its options."""

    source: str
    options: tuple[str, ...]


RUN_REQUESTS = (
    RunRequest(_BIG, ()),
    RunRequest("2-rocksdb-native", ()),
    RunRequest(_BIG, ("--parallelism", "3")),
    RunRequest(_BIG, ("--max-parallelism", "64")),
    RunRequest(_BIG, ("--max-parallelism", "1000")),
    RunRequest(_BIG, ("--max-parallelism", "1000", "--format", "rocksdb")),
    RunRequest("2-clicks", ("--parallelism", "3")),
    RunRequest("2-source", ("--parallelism", "3")),
    RunRequest("2-windows", ("--max-parallelism", "1000")),
    RunRequest("2-heap-native", ("--parallelism", "3")),
    RunRequest("2-rocksdb-native", ("--parallelism", "3")),
    RunRequest("2-rocksdb-native", ("--max-parallelism", "1000")),
    RunRequest("2-canonical-hashmap", ("--format", "rocksdb", "--parallelism", "3")),
)


@dataclass
class Outcome:
    """Exit codes of a run's tries and discards, its mishaps (`copies`: of copy requests), and the broken promise."""

    request: RunRequest
    codes: list[int] = field(default_factory=list)
    discards: list[int] = field(default_factory=list)
    requests: int = 0
    copies: int = 0
    happened: Mapping[Mishap, int] = field(default_factory=dict)
    broken: str | None = None

    @property
    def ending(self) -> str:
        if self.broken is not None:
            return "BROKEN"
        if self.codes == [0]:
            return "published at once"
        return f"exit codes {', '.join(map(str, self.codes))}{', discarded between' if self.discards else ''}"


@dataclass(frozen=True)
class Home:
    """Sources in a bucket, and the function that runs `rescale`."""

    server: S3Server
    client: S3Client
    rescale: Rescale
    _right: dict[RunRequest, dict[str, bytes]] = field(default_factory=dict)
    _locks: dict[RunRequest, Lock] = field(default_factory=lambda: {request: Lock() for request in RUN_REQUESTS})

    def play(self, seed: int, rate: float, stall: float) -> Outcome:
        """Play one run with all its tries."""
        random = Random(seed)
        outcome = Outcome(random.choice(RUN_REQUESTS))
        target = f"target-{RUN_REQUESTS.index(outcome.request)}"
        mishaps = Mishaps(seed, rate, stall)
        with self._locks[outcome.request]:
            right, sources = self._right_result(outcome.request, target), self._objects("sources/")
            try:
                self._play(outcome, target, right, mishaps, discarding=random.random() < _DISCARDING)
                _must(self._objects("sources/") == sources, "the source has changed")
            except AssertionError as error:
                outcome.broken = f"after exit codes {outcome.codes}: {error}"
            self._clear(target)
        outcome.requests, outcome.copies, outcome.happened = mishaps.requests, mishaps.copies, mishaps.happened
        return outcome

    def _play(
        self, outcome: Outcome, target: str, right: dict[str, bytes], mishaps: Mishaps, *, discarding: bool
    ) -> None:
        writes_outside: list[str] = []
        own_prefixes = tuple(f"/{_BUCKET}/{place}/" for place in (target, f"{target}.rescale"))

        def decide(wire_request: WireRequest) -> Treatment:
            if wire_request.method not in ("GET", "HEAD") and not wire_request.path.startswith(own_prefixes):
                writes_outside.append(f"{wire_request.method} {wire_request.path}")
            return mishaps.decide(wire_request)

        with wire_to(self.server) as wire:
            wire.decide = decide
            while len(outcome.codes) < _TRIES and 0 not in outcome.codes:
                self._try(outcome, target, right, wire.environment)
            if 0 not in outcome.codes and discarding:
                self._discard(outcome, target, wire.environment)
        _must(not writes_outside, f"requests write outside of the target: {writes_outside}")
        if 0 not in outcome.codes:
            self._try(outcome, target, right, self.server.environment)
            _must(outcome.codes[-1] == 0, "without the proxy, the run does not publish either")

    def _try(self, outcome: Outcome, target: str, right: dict[str, bytes], environment: Mapping[str, str]) -> None:
        done = self.rescale(_run_arguments(outcome.request, target), environment)
        outcome.codes.append(done.code)
        output = f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        _must(done.code in (0, 1), f"exit code {done.code}: {output}")
        _must(done.stdout.startswith("{"), f"no document: {output}")
        document = json.loads(done.stdout)
        _must(("error" in document) == (done.code == 1), f"exit code and document contradict each other: {output}")
        published = f"{target}/_metadata" in self._objects(f"{target}/")
        _must(published or done.code == 1, f"nothing is published: {output}")
        if published:
            _must(self._result(target) == right, "the published result differs from that of an undisturbed run")
        if done.code == 0:
            self._no_upload_is_open(target)

    def _discard(self, outcome: Outcome, target: str, environment: Mapping[str, str]) -> None:
        objects = self._objects(target)
        if f"{target}/_metadata" in objects or f"{target}.rescale/publishing" in objects:
            return  # a result that is or may be published stays
        for number in range(_DISCARDS + 1):
            is_undisturbed = number == _DISCARDS
            arguments = ["discard", f"s3://{_BUCKET}/{target}", "--output", "json"]
            done = self.rescale(arguments, self.server.environment if is_undisturbed else environment)
            outcome.discards.append(done.code)
            _must(done.code in ((0,) if is_undisturbed else (0, 1)), f"discard: {done.stdout} {done.stderr}")
            if done.code == 0:
                break
        _must(not self._objects(f"{target}/"), "the discarded target still has files")
        _must(not self._objects(f"{target}.rescale/"), "the directory beside the discarded target still has files")
        self._no_upload_is_open(target)

    def _no_upload_is_open(self, target: str) -> None:
        answer = self.client.list_multipart_uploads(Bucket=_BUCKET, Prefix=target)
        open_uploads = [
            upload["Key"] for upload in answer.get("Uploads", ()) if upload["Key"].split("/")[0].split(".")[0] == target
        ]
        _must(not open_uploads, f"uploads stay open: {open_uploads}")

    def _right_result(self, request: RunRequest, target: str) -> dict[str, bytes]:
        """Return the files of an undisturbed run. They are deleted, because disturbed runs have the same target."""
        if request not in self._right:
            done = self.rescale(_run_arguments(request, target), self.server.environment)
            assert done.code == 0, done.stderr
            self._right[request] = self._result(target)
            self._clear(target)
        return self._right[request]

    def _result(self, target: str) -> dict[str, bytes]:
        keys = self._objects(f"{target}/")
        return {key: self.client.get_object(Bucket=_BUCKET, Key=key)["Body"].read() for key in keys}

    def _clear(self, target: str) -> None:
        for key in (*self._objects(f"{target}/"), *self._objects(f"{target}.rescale/")):
            self.client.delete_object(Bucket=_BUCKET, Key=key)

    def _objects(self, prefix: str) -> dict[str, str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=_BUCKET, Prefix=prefix)
        return {entry["Key"]: entry["ETag"] for page in pages for entry in page.get("Contents", ())}


@contextmanager
def wires_home(rescale: Rescale) -> Iterator[Home]:
    """Yield sources on a new S3 server, which takes parts of any size."""
    with TemporaryDirectory() as folder, patch.dict(os.environ, S3_UPLOAD_PART_MIN_SIZE="1"), s3_server() as server:
        server.create_bucket(_BUCKET)
        client = server.client()
        write_savepoint(Path(folder, _BIG), _BIG_BYTES, elements=3)
        for name in {request.source for request in RUN_REQUESTS}:
            source = Path(folder, _BIG) if name == _BIG else Path(directory(name))
            for path in source.iterdir():
                client.put_object(Bucket=_BUCKET, Key=f"sources/{name}/{path.name}", Body=path.read_bytes())
        yield Home(server, client, rescale)


def _run_arguments(request: RunRequest, target: str) -> list[str]:
    place = f"s3://{_BUCKET}"
    arguments = ["run", f"{place}/sources/{request.source}", "--target", f"{place}/{target}", "--master", "local[2]"]
    return [*arguments, *request.options, "--output", "json"]


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(what)
