"""Page about files that were copied ahead."""

from __future__ import annotations

from collections.abc import Mapping

from rescale.plan.plan import Plan
from rescale.report.documents import Preparation
from rescale.text.units import counted, human_bytes


def preparation(plan: Plan, result: Mapping[str, int]) -> Preparation:
    """Return the document of a preparation; `result` is that of its step."""
    files, size = result["files"], result["bytes"]
    left = plan.bytes_moved - size
    return Preparation(plan.target, plan.source, files, size, result["new_files"], result["new_bytes"], left)


def preparation_text(document: Preparation) -> str:
    """Return the page of a preparation as text."""
    files = f"{counted(document.files, 'SST file')} of {document.source}, {human_bytes(document.bytes)}"
    new = f"{counted(document.new_files, 'of them is', 'of them are')} new, {human_bytes(document.new_bytes)}"
    return "\n".join(
        (
            f"{document.target} is prepared: it has {files}",
            f"{new}; a run from this checkpoint would still write {human_bytes(document.bytes_left)}",
            "repeat this for newer checkpoints; then run from the last one without --prepare",
        )
    )
