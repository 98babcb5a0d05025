"""Finds the names that a user gave for operators that do not exist."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from rescale.flink.operator_id import operator_id_of_uid
from rescale.text.names import first_of

_MOST_NAMED = 5


def unused_names(ids_and_names: Iterable[tuple[str, str]], operator_ids: Collection[str]) -> tuple[str, ...]:
    """Return the names in `ids_and_names` (pairs of operator id and name) whose operator does not exist.

    If a name is not the uid of the operator, the id follows the name in parentheses.
    """
    return tuple(
        name if operator_id == operator_id_of_uid(name) else f"{name} ({operator_id})"
        for operator_id, name in ids_and_names
        if operator_id not in operator_ids
    )


def unused_names_note(names: Sequence[str], place: str = "the snapshot") -> Iterator[str]:
    """Yield a sentence if there are unused names, which are no error, because one list may serve several jobs."""
    if names:
        yield (
            f"no operator of {place} has these names: {first_of(names, _MOST_NAMED)}; they may be misspelt, or "
            "belong to another job"
        )
