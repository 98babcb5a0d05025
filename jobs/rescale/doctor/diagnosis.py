"""All checks of the environment, and their text."""

from __future__ import annotations

from collections.abc import Callable

from rescale.doctor.checks import Check, CheckList, CheckOutcome, Diagnosis
from rescale.doctor.machine import check_java, check_scratch, check_spark_packages
from rescale.doctor.pod_rights import check_driver_rights, check_executor_rights
from rescale.doctor.source import check_source
from rescale.doctor.target import check_target
from rescale.text.advice import Mention
from rescale.text.units import counted


def diagnose(source: str | None, target: str | None, flink: str | None) -> Diagnosis:
    """Check this machine, the rights of its pod and, if they are given, a source, a target and a Flink cluster.

    Raises `RequestError` if `flink` is not an address of Flink's REST API.
    """
    checks = CheckList()
    check_java(checks)
    check_spark_packages(checks)
    state_bytes = None if source is None else check_source(checks, source)
    check_scratch(checks, state_bytes)
    if target is not None:
        check_target(checks, target, source)
    check_executor_rights(checks)
    if flink is not None:
        from rescale.doctor.flink_cluster import check_flink  # imports httpx, which is slow

        check_flink(checks, flink)
    return checks.diagnosis


def diagnose_run(
    source: str, target: str, *, checks_machine: bool, starts_drivers: bool, wording: Callable[[Mention], str]
) -> Diagnosis:
    """Check what a run with an inspected source still needs: its target and, with `checks_machine`, this machine.

    With `starts_drivers`, also check whether this pod may start pods of drivers. `wording` is as in `CheckList`.
    """
    checks = CheckList(wording)
    if checks_machine:
        check_java(checks)
        check_spark_packages(checks)
        check_scratch(checks, None)
    if starts_drivers:
        check_driver_rights(checks)
    check_target(checks, target, source)
    return checks.diagnosis


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return a line for each check, followed by a line of advice if there is any, and a summary."""
    lines = [line for check in diagnosis.checks for line in _lines_of_check(check)]
    count_by_outcome = {
        outcome: sum(check.outcome is outcome for check in diagnosis.checks) for outcome in CheckOutcome
    }
    error_count, warning_count = count_by_outcome[CheckOutcome.ERROR], count_by_outcome[CheckOutcome.WARNING]
    problem_counts = f"{counted(error_count, 'error')}, {counted(warning_count, 'warning')}"
    return "\n".join([*lines, "", f"{counted(len(diagnosis.checks), 'check')}: {problem_counts}"])


def _lines_of_check(check: Check) -> list[str]:
    lines = [f"{check.outcome:<7}  {check.subject}: {check.tried} → {check.result}; {check.meaning}"]
    return lines if check.advice is None else [*lines, f"         what to do: {check.advice}"]
