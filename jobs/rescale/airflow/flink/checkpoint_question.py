"""Question to Flink about a triggered checkpoint."""

from __future__ import annotations

from typing import Any

import msgspec

from rescale.airflow.flink.flink_access import open_flink
from rescale.flink_rest.responses import is_directory
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError, StoreError


class CheckpointQuestion(msgspec.Struct, frozen=True, tag="CheckpointTaken"):
    """Asks Flink for the complete checkpoint that was triggered with `trigger_id`."""

    flink: str
    job_id: str
    trigger_id: str

    @property
    def waits_for(self) -> str:
        return f"the checkpoint of job {self.job_id}"

    def ask(self) -> dict[str, Any] | None:
        with open_flink(self.flink) as flink:
            checkpoint = flink.triggered_checkpoint(self.job_id, self.trigger_id)
            if checkpoint is None:
                raise StoreError("Flink no longer knows the checkpoint that it was making", path=flink.address)
            if checkpoint.failure is not None:
                raise StoreError("Flink could not make the checkpoint", path=flink.address, found=checkpoint.failure)
            if not checkpoint.has_ended or checkpoint.number is None:
                return None
            last_checkpoint = flink.last_checkpoint(self.job_id)
            details = flink.checkpoint_details(self.job_id, checkpoint.number)
            if details is None and last_checkpoint is not None and last_checkpoint.id > checkpoint.number:
                raise RequestError(
                    "Flink has forgotten the checkpoint, because the job has made many others since",
                    path=flink.address,
                    operator=self.job_id,
                    expected=f"checkpoint {checkpoint.number}",
                    found=f"checkpoint {last_checkpoint.id} as the last one",
                    advice="let the job make checkpoints less often, or use CheckpointSensor",
                )
            if details is None or details.status != "COMPLETED":  # Flink's answer is outdated
                return None
            if details.external_path is None or not is_directory(details.external_path):
                raise RequestError(
                    "the checkpoint is complete, but it has no directory that Rescale could read",
                    path=flink.address,
                    found=f"checkpoint {checkpoint.number}",
                    advice="let the job store its checkpoints in a directory (execution.checkpointing.dir)",
                )
            return {"checkpoint": normalise(details.external_path), "id": checkpoint.number, "job": self.job_id}
