"""What is said where the store does not copy."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.execution.progress import Progress


def tell_of_refusals(progress: Progress, refused: Iterable[str]) -> None:
    """Said once, whoever met it; `refused` are the store's words, empty ones where it copied."""
    if words := sorted({one for one in refused if one}):
        progress.say(f"the store does not copy by itself, so bytes pass through here: {words[0]}")
