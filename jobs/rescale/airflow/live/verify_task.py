"""The task that compares all records after a cut-over, while the new job runs."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rescale.airflow.steps.earlier_tasks import FOLLOW_TASK, VERIFY_TASK, Summary, required_output
from rescale.airflow.steps.rescale_task import rescale_task, skip_task
from rescale.runstate.step import Step
from rescale.text.errors import IntegrityError

log = logging.getLogger(__name__)


def _verify(follow_output: Mapping[str, Any] | None, params: Any = None, ti: Any = None) -> Summary:
    """Compares every record of the result with the job's last checkpoint, while the new job runs."""
    if not params["while_it_runs"]:
        skip_task("the result was proven before the job was started from it")
    if not params["verify_after"]:
        skip_task("the form asks for no proof by all records: the rounds prove the changed ones")
    from rescale.airflow.live.mover import run_in_pod_or_process
    from rescale.airflow.summaries import as_output, certificate_summary
    from rescale.plan.proof import Proof
    from rescale.runstate.certificate import Certificate

    result = required_output(FOLLOW_TASK, follow_output)
    arguments = ["--source", result["source"], "--target", result["target"], "--proof", Proof.RECORDS.value]
    try:
        document = run_in_pod_or_process(Step.VALIDATE, result["target"], arguments, ti)
    except IntegrityError as error:
        error.advice = (
            f"the job was started from a wrong result: cancel it, and start it from {result['source']} with its old "
            "shape; then report this as a bug"
        )
        raise
    certificate = document.read(Certificate)
    log.info("verdict: %s; every record was compared", certificate.verdict)
    return as_output(certificate_summary(certificate, result["certificate"]))


verify = rescale_task(_verify, VERIFY_TASK, "Compare all records")
