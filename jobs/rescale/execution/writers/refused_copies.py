"""Message about a store that refuses to copy."""

from __future__ import annotations

from collections.abc import Iterable

from rescale.execution.progress import Progress


def tell_of_refusals(progress: Progress, refused: Iterable[str]) -> None:
    """Report refused copies once; `refused` has the store's reasons, empty where it copied."""
    if reasons := sorted({reason for reason in refused if reason}):
        progress.say(f"the store does not copy objects itself, so the tasks read and write them: {reasons[0]}")
