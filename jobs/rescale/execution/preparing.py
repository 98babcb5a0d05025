"""The step that copies files of a checkpoint while the job still runs (`runstate.preparation`)."""

from __future__ import annotations

from rescale.execution.tasks.protocol import Tasks
from rescale.execution.writers.planned_streams import copy_ahead
from rescale.plan.plan import Plan
from rescale.report.step_results import PreparedFiles
from rescale.runstate.preparation import end_preparing, give_up_preparing, prepared_sizes
from rescale.storage.locations import name
from rescale.storage.store import open_store


def prepare_files(plan: Plan, tasks: Tasks) -> PreparedFiles:
    """Copy the plan's SST files that are not in its target yet, and remove files of older checkpoints from the target.

    Raises `RequestError` if the target is claimed or discarded during the copy. Then the new copies are removed, except
    those that the claiming plan names.
    """
    existing_sizes = {name(entry.uri): entry.size for entry in open_store(plan.target).list(plan.target)}
    size_by_name = prepared_sizes(plan)
    try:
        copy_ahead(plan, tasks, existing_sizes)
        end_preparing(plan)
    finally:
        give_up_preparing(plan, existing_sizes)
    new_sizes = [size for file, size in size_by_name.items() if existing_sizes.get(file) != size]
    return PreparedFiles(len(size_by_name), sum(size_by_name.values()), len(new_sizes), sum(new_sizes))
