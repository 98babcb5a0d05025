"""What lies below a directory, asked for by pages of a thousand."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from rescale.errors import RescaleError
from rescale.storage.contract import Entry, Pin
from rescale.storage.locations import split_s3
from rescale.storage.s3.s3_errors import translated

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

WORTH_A_PAGE = 16
"""Objects: to ask for each of so many costs more than a page of a listing."""


def listed(client: S3Client, directory: str, begin: str) -> list[Entry]:
    """Everything below it under names that begin so, sorted; errors are ours."""
    bucket, prefix = _below(directory)
    entries = []
    with translated(directory):
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix + begin):
            for found in page.get("Contents", ()):
                if not found["Key"].endswith("/"):  # else a directory, as consoles and Hadoop mark them
                    pin = Pin(found["Size"], etag=found["ETag"])
                    entries.append(Entry(f"s3://{bucket}/{found['Key']}", pin))
    return sorted(entries, key=lambda entry: entry.uri)


def listed_of(client: S3Client, directory: str, wanted: Collection[str]) -> dict[str, Pin]:
    """Of the objects right in a directory those that are wanted, as far as looking for them this way is worth it.

    Who may read objects need not be allowed to list them, and among the files of other snapshots few are wanted: what
    is not found here is asked for one by one.
    """
    bucket, prefix = _below(directory)
    found: dict[str, Pin] = {}
    with suppress(RescaleError), translated(directory):
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix, Delimiter="/")
        for page in pages:
            there = ((f"s3://{bucket}/{one['Key']}", one) for one in page.get("Contents", ()))
            pins = {uri: Pin(one["Size"], etag=one["ETag"]) for uri, one in there if uri in wanted}
            found |= pins
            if len(pins) < WORTH_A_PAGE:
                break
    return found


def _below(directory: str) -> tuple[str, str]:
    """The bucket, and what the keys of all objects below the directory begin with."""
    bucket, key = split_s3(directory)
    return bucket, f"{key}/" if key else ""
