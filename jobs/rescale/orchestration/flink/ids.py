"""Ids that follow from the DAG run: a task that is tried again gives Flink the same ones, and Flink knows them."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID, uuid5

_OURS = UUID("5b0e1c4e-1d0f-5d0c-9a57-6f2f3a8e9b11")

_MOST = 100


def ids(*parts: str) -> Iterator[str]:
    """Ids as Flink's `AbstractID` writes them, 32 hexadecimal digits: the next one is for when one was used up."""
    for number in range(_MOST):
        yield uuid5(_OURS, "\n".join([*parts, str(number)])).hex
