"""Kind of bucket that a history has: most keep no versions, and have no checksums but ETags."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

_WITH_VERSIONS, _WITH_SUMS = 0.05, 0.08
"""Shares of all histories."""

_BELIEVED = 0.8
"""Share of histories with checksums that ask for a proof by files, which trusts the store's checksums."""


@dataclass(frozen=True)
class StoreKind:
    """`keeps_versions` of all objects, whoever puts something over them or deletes them; `has_sums` of all that is put,
    and whoever `is_believed` is taken at his word for them, where the state is such that this can be asked for.
    """

    keeps_versions: bool = False
    has_sums: bool = False
    is_believed: bool = False

    def __str__(self) -> str:
        said = {"keeps versions": self.keeps_versions, "has checksums": self.has_sums, "believed": self.is_believed}
        return "".join(f"; {what}" for what, holds in said.items() if holds)


def draw_store(seed: int) -> StoreKind:
    """From a seed of its own: other histories are what they are."""
    random = Random(f"store {seed}")
    has_sums = random.random() < _WITH_SUMS
    return StoreKind(
        keeps_versions=random.random() < _WITH_VERSIONS,
        has_sums=has_sums,
        is_believed=has_sums and random.random() < _BELIEVED,
    )
