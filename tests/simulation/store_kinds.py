"""Kinds of buckets: most keep no versions, and have no checksums except ETags."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_VERSIONS_SHARE, _CHECKSUMS_SHARE = 0.05, 0.08
"""Shares of all histories whose bucket keeps versions, and of those whose bucket has checksums."""

_TRUSTED_SHARE = 0.8
"""Share of histories with checksums that ask for a proof by files, which trusts the store's checksums."""


@dataclass(frozen=True)
class StoreKind:
    """Kind of bucket.

    With `keeps_versions`, puts and deletes keep all earlier versions. With `has_checksums`, the bucket has checksums of
    all objects; with `is_trusted`, the run requests a proof by files, which relies on them, if the state allows it.
    """

    keeps_versions: bool = False
    has_checksums: bool = False
    is_trusted: bool = False

    def __str__(self) -> str:
        traits = {
            "keeps versions": self.keeps_versions,
            "has checksums": self.has_checksums,
            "trusted": self.is_trusted,
        }
        return "".join(f"; {what}" for what, holds in traits.items() if holds)


def draw_store(seed: int) -> StoreKind:
    """Draw the kind of bucket from its own seed, so that the rest of the history does not depend on it."""
    random = Random(f"store {seed}")
    has_checksums = random.random() < _CHECKSUMS_SHARE
    return StoreKind(
        keeps_versions=random.random() < _VERSIONS_SHARE,
        has_checksums=has_checksums,
        is_trusted=has_checksums and random.random() < _TRUSTED_SHARE,
    )
