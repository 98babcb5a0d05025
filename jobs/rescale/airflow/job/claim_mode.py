"""Check of the claim mode in which a hand-over starts a job with a changelog.

In NO_CLAIM mode, the job's first checkpoint must be a full one. Tasks with a changelog cannot make a full checkpoint,
and fail whenever they are asked for one (`StreamTask.checkForcedFullSnapshotSupport`).

These starts are always in NO_CLAIM mode:

* from a jar;
* of a FlinkSessionJob: Flink's operator names the mode in its request (`AbstractFlinkService.runJar`), which overrides
  the job's options (`JarRunHandler`);
* from a result that refers to files of the source;
* from the job's last checkpoint, when the run goes back to the old job.
"""

from __future__ import annotations

from rescale.airflow.flink.deployment import claim_mode
from rescale.airflow.hand_overs import HandOver, PatchDeployment, Print
from rescale.flink.start import CLAIM_MODE_OPTIONS, NO_CLAIM
from rescale.flink_rest.client import Flink, StopMode
from rescale.flink_rest.running_job import Job
from rescale.text.errors import RequestError


def refuse_no_claim(flink: Flink, job: Job, hand_over: HandOver, taking: StopMode, *, refers_to_source: bool) -> None:
    """Raise `RequestError` if the job has a changelog, and the run would start it in NO_CLAIM mode.

    `refers_to_source` tells whether the result uses files of the source, which the job must not own.
    """
    backend = flink.state_backend(job.job_id)
    if isinstance(hand_over, Print) or backend is None or not backend.has_changelog:
        return
    mode, remedies = NO_CLAIM, ["choose to print the command, and add -restoreMode claim to it"]
    if isinstance(hand_over, PatchDeployment) and hand_over.resource == "FlinkSessionJob":
        remedies = []
    elif isinstance(hand_over, PatchDeployment):
        is_needed_by_change = {
            "copy the files of RocksDB": refers_to_source,
            "choose a savepoint": taking is StopMode.CHECKPOINT,
        }
        needed_changes = [change for change, is_needed in is_needed_by_change.items() if is_needed]
        options = flink.configuration()
        cluster_modes = (options[name] for name in CLAIM_MODE_OPTIONS if name in options)
        mode = NO_CLAIM if needed_changes else (claim_mode(hand_over) or next(cluster_modes, NO_CLAIM)).upper()
        claim_advice = f"set {CLAIM_MODE_OPTIONS[0]} to CLAIM in the flinkConfiguration of the {hand_over.resource}"
        remedies = [" and ".join([*needed_changes, claim_advice])]
    if mode == NO_CLAIM:
        raise RequestError(
            "the job has a changelog, so it could make no checkpoint after this hand-over, nor after going back",
            path=flink.address,
            operator=job.name,
            expected="a hand-over that starts the job in CLAIM mode",
            found=mode,
            advice="; or ".join([*remedies, "first start the job without its changelog"]),
        )
