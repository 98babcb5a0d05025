"""Checks the environment before a run: the store of its target, and the worker that would run its steps."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rescale.airflow.connections.access import DRIVER_POD_VARIABLE
from rescale.airflow.connections.spark import platform_spark
from rescale.airflow.forms.form_advice import form_wording
from rescale.airflow.steps.earlier_tasks import Summary
from rescale.airflow.task_log import log_text
from rescale.doctor.checks import CheckOutcome
from rescale.doctor.diagnosis import diagnose_run, diagnosis_text
from rescale.options.profiles import use_targets
from rescale.planning.request.request import target_place
from rescale.storage.locations import normalise
from rescale.text.errors import RequestError
from rescale.text.units import counted


def check_environment(params: Mapping[str, Any]) -> Summary:
    """Log what `rescale doctor` finds out about the target, and return how many of its checks had each outcome.

    Also checks this worker if the steps would run on it, without a Spark cluster, or its rights to start pods if steps
    run in pods. Raises `RequestError` if a run would fail.
    """
    uses_driver_pods = DRIVER_POD_VARIABLE in os.environ
    checks_machine = not uses_driver_pods and not platform_spark().is_cluster
    source, target = normalise(params["source"]), target_place(params["target"])
    use_targets([target])
    diagnosis = diagnose_run(
        source, target, checks_machine=checks_machine, starts_drivers=uses_driver_pods, wording=form_wording
    )
    log_text(diagnosis_text(diagnosis))
    failed_checks = [check for check in diagnosis.checks if check.outcome is CheckOutcome.ERROR]
    if failed_checks:
        raise RequestError(
            f"a run would fail: {counted(len(failed_checks), 'check')} ended with an error",
            found=f"{failed_checks[0].subject}: {failed_checks[0].tried}: {failed_checks[0].result}",
            advice=failed_checks[0].advice or "the log of this task has all checks",
        )
    return {
        outcome.value: sum(check.outcome is outcome for check in diagnosis.checks)
        for outcome in (CheckOutcome.OK, CheckOutcome.WARNING)
    }
