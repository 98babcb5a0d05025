"""Bugs that show in a bucket that keeps versions, or that computes a checksum of each object."""

# ruff: noqa: ARG001 (a replacement takes the arguments of the replaced function)

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rescale.execution.compare.validation import validation
from rescale.execution.compare.validation.compare import ElementCheck, FileCheck, GroupCheck
from rescale.execution.compare.validation.store_checksums import prove_by_checksums
from rescale.execution.compare.validation.validation import SnapshotPair, compare_snapshots
from rescale.flink.metadata.handles import DistributionMode
from rescale.plan.proof import Proof
from rescale.storage.contract import Entry, Pin
from rescale.storage.locations import split_s3
from rescale.storage.s3.pinned_objects import PinnedObjects
from rescale.storage.s3.s3_errors import translated_errors
from rescale.storage.s3.s3_store import S3Store
from simulation.bugs.planting import Bug, attribute_planter, function_planter

_originals = dict(vars(S3Store))
_get = PinnedObjects._get


def _versions(store: S3Store | PinnedObjects, uri: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield kind and entry of each version whose key begins with that of `uri`, the newest of each key first."""
    bucket, key = split_s3(uri)
    with translated_errors(uri):
        pages = list(store._client.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix=key))
    for page in pages:
        for kind in ("DeleteMarkers", "Versions"):
            yield from ((kind, dict(version)) for version in page.get(kind, ()))


def _versions_of_key(store: S3Store | PinnedObjects, uri: str, kind: str) -> list[dict[str, Any]]:
    _, key = split_s3(uri)
    return [
        version for version_kind, version in _versions(store, uri) if version_kind == kind and version["Key"] == key
    ]


def _delete_newest_version(self: S3Store, uri: str) -> None:
    """Delete the newest version, so that the version before it becomes the newest one again."""
    bucket, key = split_s3(uri)
    head = self._objects.head(uri)
    version: Mapping[str, Any] = {"VersionId": head["VersionId"]} if head is not None and "VersionId" in head else {}
    with translated_errors(uri):
        self._client.delete_object(Bucket=bucket, Key=key, **version)


def _delete_all_versions(self: S3Store, uri: str) -> None:
    bucket, key = split_s3(uri)
    _originals["_delete"](self, uri)
    for kind in ("Versions", "DeleteMarkers"):
        for version in _versions_of_key(self, uri, kind):
            with translated_errors(uri):
                self._client.delete_object(Bucket=bucket, Key=key, VersionId=version["VersionId"])


def _delete_once(self: S3Store, uri: str) -> None:
    """Delete nothing where there is a delete marker, whether or not the object was put again."""
    if not _versions_of_key(self, uri, "DeleteMarkers"):
        _originals["_delete"](self, uri)


def _stat_of_any_version(self: S3Store, uri: str) -> Pin | None:
    """Stat the version that a delete marker hides."""
    entry = _originals["stat"](self, uri)
    if entry is None and (hidden := _versions_of_key(self, uri, "Versions")):
        bucket, key = split_s3(uri)
        with translated_errors(uri):
            head = self._client.head_object(Bucket=bucket, Key=key, VersionId=hidden[0]["VersionId"])
        return Pin(head["ContentLength"], etag=head["ETag"])
    return entry  # type: ignore[no-any-return]


def _put_unless_marked(self: S3Store, uri: str, data: bytes) -> bool:
    """Put nothing where a delete marker is, as if it were an object."""
    return not _versions_of_key(self, uri, "DeleteMarkers") and bool(_originals["_put_conditionally"](self, uri, data))


def _list_all(self: S3Store, directory: str, prefix: str = "") -> list[Entry]:
    """List the objects hidden by delete markers, too."""
    listed = {entry.uri: entry for entry in _originals["list"](self, directory, prefix)}
    bucket, _ = split_s3(directory)
    for kind, version in _versions(self, f"{directory}/{prefix}"):
        if kind == "Versions":
            uri = f"s3://{bucket}/{version['Key']}"
            listed.setdefault(uri, Entry(uri, Pin(1)))
    return [listed[uri] for uri in sorted(listed)]


def _get_oldest_version(self: PinnedObjects, uri: str, *rest: Any, **named: Any) -> Any:
    """Read the oldest version of a document."""
    bucket, key = split_s3(uri)
    versions = _versions_of_key(self, uri, "Versions")
    if len(versions) < 2 or ".rescale/" not in uri or self.pin(uri) is None:
        return _get(self, uri, *rest, **named)
    with translated_errors(uri):
        return self._client.get_object(Bucket=bucket, Key=key, VersionId=versions[-1]["VersionId"])


def _compare_by_files(
    source: Any, result: Any, key_hashes: Any, proof: Proof = Proof.RECORDS, *more: Any, **named: Any
) -> SnapshotPair:
    return compare_snapshots(source, result, key_hashes, Proof.FILES, *more, **named)


def _trusting_too_much(leaves_out: Callable[[Any], bool], *, skips_small_files: bool = False) -> Any:
    """Skip more reads than the store's checksums justify."""

    def prove_too_much(source: Any, result: Any, checks: Any) -> Any:
        checksum_proof = prove_by_checksums(source, result, checks)
        units = [(weight, check) for weight, check in checksum_proof.checks.units if not leaves_out(check)]
        remaining_checks = replace(
            checksum_proof.checks,
            units=units,
            small_files=[] if skips_small_files else checksum_proof.checks.small_files,
        )
        return checksum_proof._replace(checks=remaining_checks)

    return prove_too_much


def _is_split_check(check: Any) -> bool:
    return isinstance(check, ElementCheck) and check.mode is DistributionMode.SPLIT_DISTRIBUTE


def _with_half_the_size(source: Any, result: Any, checks: Any) -> Any:
    checksum_proof = prove_by_checksums(source, result, checks)
    return checksum_proof._replace(tallies=[tally._replace(size=tally.size // 2) for tally in checksum_proof.tallies])


BUGS = [
    Bug(
        "versions: a delete removes the newest version only",
        attribute_planter(S3Store, "_delete", _delete_newest_version),
    ),
    Bug("versions: a delete removes all versions", attribute_planter(S3Store, "_delete", _delete_all_versions)),
    Bug("versions: an object with a marker is not deleted again", attribute_planter(S3Store, "_delete", _delete_once)),
    Bug(
        "versions: a stat finds an object that a marker hides", attribute_planter(S3Store, "stat", _stat_of_any_version)
    ),
    Bug("versions: a marker prevents a put", attribute_planter(S3Store, "_put_conditionally", _put_unless_marked)),
    Bug("versions: a listing has hidden objects", attribute_planter(S3Store, "list", _list_all)),
    Bug(
        "versions: a read takes the oldest version of a document",
        attribute_planter(PinnedObjects, "_get", _get_oldest_version),
    ),
    Bug("sums: a proof by records is made by files", function_planter(compare_snapshots, _compare_by_files)),
    Bug(
        "sums: elements are not read, either",
        attribute_planter(validation, "prove_by_checksums", _trusting_too_much(_is_split_check)),
    ),
    Bug(
        "sums: bytes without checksums are not read",
        attribute_planter(
            validation,
            "prove_by_checksums",
            _trusting_too_much(lambda check: isinstance(check, GroupCheck | FileCheck)),
        ),
    ),
    Bug(
        "sums: small files are not read, either",
        attribute_planter(
            validation,
            "prove_by_checksums",
            _trusting_too_much(lambda check: isinstance(check, FileCheck), skips_small_files=True),
        ),
        native=True,
    ),
    Bug(
        "sums: the certificate counts half of the bytes",
        attribute_planter(validation, "prove_by_checksums", _with_half_the_size),
    ),
]
