"""Page about a preparation, which copies files into the target ahead of a run."""

from __future__ import annotations

from rescale.plan.plan import Plan
from rescale.report.documents import Preparation
from rescale.report.step_results import PreparedFiles
from rescale.text.units import counted, human_bytes


def preparation(plan: Plan, done: PreparedFiles) -> Preparation:
    """Return the document of a preparation; `done` is the result of its step."""
    left = plan.bytes_moved - done.bytes
    return Preparation(plan.target, plan.source, done.files, done.bytes, done.new_files, done.new_bytes, left)


def preparation_text(document: Preparation) -> str:
    files = f"{counted(document.files, 'SST file')} of {document.source}, {human_bytes(document.bytes)}"
    new = f"{counted(document.new_files, 'of them is', 'of them are')} new, {human_bytes(document.new_bytes)}"
    return "\n".join(
        (
            f"{document.target} is prepared: it has {files}",
            f"{new}; a run from this checkpoint would still write {human_bytes(document.bytes_left)}",
            "repeat this for newer checkpoints; then run from the last one without --prepare",
        )
    )
