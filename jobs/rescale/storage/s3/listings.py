"""Listings of the objects below a directory, in pages of a thousand objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rescale.storage.contract import Entry, Pin
from rescale.storage.locations import split_s3
from rescale.storage.s3.s3_errors import translated_errors
from rescale.text.errors import RescaleError, UnsupportedError

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListObjectsV2OutputTypeDef

LEAST_OBJECTS_TO_LIST = 16
"""Smallest number of objects for which one page of a listing costs less than a HEAD of each object."""


def list_objects(client: S3Client, directory: str, prefix: str) -> list[Entry]:
    """Return all objects below a directory whose paths in it begin with `prefix`, sorted; raises Rescale's errors."""
    bucket, directory_prefix = _bucket_and_prefix(directory)
    key_prefix = directory_prefix + prefix
    entries = []
    for page in _pages(client, directory, Prefix=listable_prefix(bucket, key_prefix)):
        for s3_object in page.get("Contents", ()):
            # A key that ends in a slash is a directory, as consoles and Hadoop mark them.
            if s3_object["Key"].startswith(key_prefix) and not s3_object["Key"].endswith("/"):
                pin = Pin(s3_object["Size"], etag=s3_object["ETag"])
                entries.append(Entry(f"s3://{bucket}/{s3_object['Key']}", pin))
    return sorted(entries, key=lambda entry: entry.uri)


def list_folders(client: S3Client, directory: str) -> list[str]:
    """Return the sorted names of the folders directly in a directory; raises Rescale's errors."""
    _, directory_prefix = _bucket_and_prefix(directory)
    pages = _pages(client, directory, Prefix=directory_prefix, Delimiter="/")
    prefixes = (folder["Prefix"] for page in pages for folder in page.get("CommonPrefixes", ()))
    return sorted(prefix.removeprefix(directory_prefix).rstrip("/") for prefix in prefixes)


def list_pins(client: S3Client, directory: str, wanted_uris: Collection[str]) -> dict[str, Pin]:
    """Return the pins, by URI, of wanted objects that lie directly in a directory, from its listing.

    Stops after the first page with few wanted objects, since a directory may hold many files of other snapshots.
    Returns no pins if the credentials may not list. The caller sends a HEAD for each wanted object that is missing in
    the result.
    """
    bucket, directory_prefix = _bucket_and_prefix(directory)
    pin_by_uri: dict[str, Pin] = {}
    with suppress(RescaleError), translated_errors(directory):
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=directory_prefix, Delimiter="/")
        for page in pages:
            uris_and_objects = (
                (f"s3://{bucket}/{s3_object['Key']}", s3_object) for s3_object in page.get("Contents", ())
            )
            pin_by_uri_on_page = {
                uri: Pin(s3_object["Size"], etag=s3_object["ETag"])
                for uri, s3_object in uris_and_objects
                if uri in wanted_uris
            }
            pin_by_uri |= pin_by_uri_on_page
            if len(pin_by_uri_on_page) < LEAST_OBJECTS_TO_LIST:
                break
    return pin_by_uri


def is_directory_bucket(bucket: str) -> bool:
    """Tell by its name whether a bucket, or the bucket of an access point, is a directory bucket (S3 Express)."""
    return bucket.endswith(("--x-s3", "--xa-s3"))


def listable_prefix(bucket: str, key_prefix: str) -> str:
    """Return a prefix, `key_prefix` or a shorter one, by which a bucket can be listed.

    A directory bucket accepts only a prefix that ends in a slash. The caller skips keys that do not begin with
    `key_prefix`.
    """
    return key_prefix[: key_prefix.rfind("/") + 1] if is_directory_bucket(bucket) else key_prefix


def _pages(client: S3Client, directory: str, **parameters: Any) -> Iterator[ListObjectsV2OutputTypeDef]:
    """Yield the pages of a listing of the directory's bucket; raises Rescale's errors."""
    bucket, _ = _bucket_and_prefix(directory)
    with translated_errors(directory):
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, **parameters):
            if page.get("IsTruncated") and "NextContinuationToken" not in page:
                raise _cut_listing_error(directory)
            yield page


def _cut_listing_error(directory: str) -> UnsupportedError:
    """Return the error for a store that knows only the first version of ListObjects: boto3 would end after a page."""
    return UnsupportedError(
        "the store does not list all objects of a directory: it does not support ListObjectsV2",
        path=directory,
        expected="the token of the next page (NextContinuationToken)",
        found="a page that is not the last one, without a token",
        advice="use a store that supports ListObjectsV2",
    )


def _bucket_and_prefix(directory: str) -> tuple[str, str]:
    """Return the bucket, and the prefix of the keys of all objects below the directory."""
    bucket, key = split_s3(directory)
    return bucket, f"{key}/" if key else ""
