"""How thoroughly a result is compared with its source; each validation chooses this anew, so no plan contains it."""

from __future__ import annotations

from enum import StrEnum

from rescale.text.advice import Advice, mention
from rescale.text.errors import RequestError


class Proof(StrEnum):
    """How thoroughly a result is compared with its source."""

    RECORDS = "records"
    """Compare all records and all elements."""

    FILES = "files"
    """In RocksDB directories made of the source's files, compare files instead of rows. Compare copied key groups by
    the store's checksums, and everything else by its records and elements."""
    CHANGES = "changes"
    """Compare the rows that changed since the continued result, check that all other files are those of that result,
    and compare everything else by its records."""


def refuse_impossible_proof(*, is_possible: bool) -> None:
    """Raise `RequestError` if no state can be proven by files."""
    if not is_possible:
        raise RequestError(
            "no state of this plan can be proven by files",
            expected="an operator whose state is in RocksDB, stays there and keeps its max parallelism; or key groups "
            "that are copied within one S3 store",
            found="none",
            advice=Advice("leave ", mention("proof"), " out, and all records are compared"),
        )
