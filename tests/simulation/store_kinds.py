"""Kind of bucket of a history: most buckets keep no versions, and have no checksums except ETags."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_WITH_VERSIONS, _WITH_SUMS = 0.05, 0.08
"""Shares of all histories."""

_BELIEVED = 0.8
"""Share of histories with checksums that ask for a proof by files, which trusts the store's checksums."""


@dataclass(frozen=True)
class StoreKind:
    """Kind of bucket.

    With `keeps_versions`, puts and deletes keep all earlier versions. With `has_sums`, the bucket has checksums of all
    objects; with `is_believed`, the run also requests a proof by files, which relies on them, if the state allows one.
    """

    keeps_versions: bool = False
    has_sums: bool = False
    is_believed: bool = False

    def __str__(self) -> str:
        said = {"keeps versions": self.keeps_versions, "has checksums": self.has_sums, "believed": self.is_believed}
        return "".join(f"; {what}" for what, holds in said.items() if holds)


def draw_store(seed: int) -> StoreKind:
    """Draw the kind of bucket from its own seed, so that the rest of the history does not depend on it."""
    random = Random(f"store {seed}")
    has_sums = random.random() < _WITH_SUMS
    return StoreKind(
        keeps_versions=random.random() < _WITH_VERSIONS,
        has_sums=has_sums,
        is_believed=has_sums and random.random() < _BELIEVED,
    )
