"""All checks of the environment, and their text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rescale.doctor.checks import Check, CheckList, CheckOutcome, Diagnosis
from rescale.doctor.machine import check_java, check_scratch, check_spark_packages
from rescale.doctor.pod_rights import check_driver_rights, check_executor_rights
from rescale.doctor.target import check_target
from rescale.snapshot.reading.opening import open_readable
from rescale.storage.files import owned
from rescale.storage.locations import is_s3
from rescale.storage.store import open_store
from rescale.text.advice import Advice, Mention, command
from rescale.text.names import quoted
from rescale.text.units import counted, human_bytes


def diagnose(source: str | None, target: str | None, flink: str | None) -> Diagnosis:
    """Check this machine, the rights of its pod and, if they are given, a source, a target and a Flink.

    Raises `RequestError` if `flink` is not an address.
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
    source: str, target: str, *, machine: bool, drivers: bool, wording: Callable[[Mention], str]
) -> Diagnosis:
    """Check what a run with an inspected source still needs: its target and, with `machine`, this machine.

    With `drivers`, its steps run in pods, so the rights to start pods are checked. `wording` is that of `CheckList`.
    """
    checks = CheckList(wording)
    if machine:
        check_java(checks)
        check_spark_packages(checks)
        check_scratch(checks, None)
    if drivers:
        check_driver_rights(checks)
    check_target(checks, target, source)
    return checks.diagnosis


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return a line for each check, followed by a line of advice if there is any, and a summary."""
    lines = [line for check in diagnosis.checks for line in _lines(check)]
    number = {outcome: sum(check.outcome is outcome for check in diagnosis.checks) for outcome in CheckOutcome}
    problems = f"{counted(number[CheckOutcome.ERROR], 'error')}, {counted(number[CheckOutcome.WARNING], 'warning')}"
    return "\n".join([*lines, "", f"{counted(len(diagnosis.checks), 'check')}: {problems}"])


def _lines(check: Check) -> list[str]:
    lines = [f"{check.outcome:<7}  {check.subject}: {check.tried} → {check.result}; {check.meaning}"]
    return lines if check.advice is None else [*lines, f"         what to do: {check.advice}"]


def check_source(checks: CheckList, source: str) -> int | None:
    """List the source and read its metadata; return the bytes of its state, or None if they are unknown."""
    subject, source = "source", source.removesuffix("/_metadata")
    if not is_s3(source) and Path(source).exists():
        owned.protect([source])  # from now on, nothing in this process may write to the source
    with checks.failing(subject, f"list {source}", "inspect and plan list the files of a snapshot"):
        files = open_store(source).list(source)
        size = sum(entry.size for entry in files)
        result = f"{counted(len(files), 'file')}, {human_bytes(size)}"
        checks.ok(subject, f"list {source}", result, "the files of the snapshot can be listed")
    if checks.unreachable:
        return None
    tried = f"read _metadata and the headers of state files of {source}"
    with checks.failing(subject, tried, "nothing can be planned for a snapshot that cannot be read"):
        snapshot = open_readable(source)
        result = f"{counted(len(snapshot.operators), 'operator')}, {human_bytes(snapshot.bytes)} of state"
        unread = [operator for operator in snapshot.operators if operator.unread is not None]
        if snapshot.missing:
            meaning = f"{counted(len(snapshot.missing), 'file')} of state are missing, such as {snapshot.missing[0]}"
            advice = "find out who deletes files there, and name a complete snapshot"
            checks.fail(subject, tried, result, meaning, advice)
        elif unread:
            meaning = f"the state of {counted(len(unread), 'operator')} cannot be read, such as {unread[0].label}"
            checks.fail(subject, tried, result, meaning, Advice(command("inspect", quoted(source)), " says why"))
        else:
            checks.ok(subject, tried, result, "a run can be planned")
        return snapshot.bytes
    return None
