"""Names that somebody gives operators by their ids, and those of them that no operator goes by."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from rescale.flink.operator_id import operator_id_of_uid
from rescale.names import first_of

_MOST_NAMED = 5


def unused_names(given: Iterable[tuple[str, str]], operator_ids: Collection[str]) -> tuple[str, ...]:
    """Those of the (operator id, name) that are for none of the operators, with the id where it is not of the name."""
    return tuple(
        name if operator_id == operator_id_of_uid(name) else f"{name} ({operator_id})"
        for operator_id, name in given
        if operator_id not in operator_ids
    )


def said_of_unused(names: Sequence[str], where: str = "the snapshot") -> Iterator[str]:
    """A sentence if there are any. It is no error: one list may serve several jobs."""
    if names:
        yield (
            f"no operator of {where} goes by these lines of --uids: {first_of(names, _MOST_NAMED)}; they may be "
            "misspelt, or another job's"
        )
