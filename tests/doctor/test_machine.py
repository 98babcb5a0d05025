"""Checks of this machine: Java, packages, scratch space."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from rescale.doctor.checks import Check, CheckList, CheckOutcome
from rescale.doctor.machine import OLDEST_JAVA_RELEASE, SPARK_PACKAGES, check_java, check_scratch, check_spark_packages
from support.disks import disk_of
from support.needs import need
from support.readme import ROOT


def java_home(folder: Path, script: str) -> Path:
    """Return a JAVA_HOME whose `java` is a shell script."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


def only_check(checks: CheckList) -> Check:
    (check,) = checks.done
    return check


def test_java_of_this_machine_is_recent_enough() -> None:
    need("java", "the check asks it for its version")
    check_java(checks := CheckList())
    check = only_check(checks)
    assert check.outcome is CheckOutcome.OK
    assert int(re.findall(r"\d+", check.result)[0]) >= OLDEST_JAVA_RELEASE


@pytest.mark.parametrize(
    ("script", "result"),
    [
        ("""echo 'openjdk version "11.0.22" 2024-01-16' >&2""", "Java 11"),
        ("""echo 'java version "1.8.0_402"' >&2""", "Java 8"),
        ("echo 'no JVM could be started' >&2; exit 3", "exit code 3: no JVM could be started"),
    ],
)
def test_unsuitable_java_is_warned_of(
    script: str, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java_home(tmp_path / "jdk", script)))
    check_java(checks := CheckList())
    check = only_check(checks)
    assert (check.outcome, check.result) == (CheckOutcome.WARNING, result)
    assert "JAVA_HOME" in check.tried
    assert "JDK 17" in (check.advice or "")


def test_missing_java_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    check_java(checks := CheckList())
    assert (only_check(checks).outcome, only_check(checks).result) == (CheckOutcome.WARNING, "there is no such program")


def test_checked_packages_are_those_of_the_extra() -> None:
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["spark"]
    assert {re.split("[<>=]", requirement)[0] for requirement in extra} == {*SPARK_PACKAGES}
    check_spark_packages(checks := CheckList())
    assert [(check.subject, check.outcome) for check in checks.done] == [(name, "ok") for name in SPARK_PACKAGES]


def test_missing_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescale.doctor.machine.SPARK_PACKAGES", ("nothing_of_this_name",))
    check_spark_packages(checks := CheckList())
    assert only_check(checks).outcome is CheckOutcome.ERROR
    assert "flink-rescale[spark]" in (only_check(checks).advice or "")


def test_scratch_directories_are_checked_without_leaving_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/one,{tmp_path}/absent/two")
    check_scratch(checks := CheckList(), state_bytes=1)
    assert [check.outcome for check in checks.done] == [CheckOutcome.OK, CheckOutcome.OK]
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["one"]


def test_too_little_scratch_space_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    check_scratch(checks := CheckList(), state_bytes=1 << 60)
    check = only_check(checks)
    assert check.outcome is CheckOutcome.WARNING
    assert "writes up to 1.15 EB here" in check.meaning


def test_read_only_scratch_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with disk_of(1 << 20, tmp_path / "disk") as disk:
        disk.make_read_only()
        monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{disk.path},{disk.path}/below")
        check_scratch(checks := CheckList(), state_bytes=1)
    assert [check.outcome for check in checks.done] == [CheckOutcome.ERROR, CheckOutcome.ERROR]
    assert all(check.result.startswith("Read-only file system") for check in checks.done)


def test_file_in_place_of_a_scratch_directory_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("somebody's")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/file")
    check_scratch(checks := CheckList(), state_bytes=1)
    assert only_check(checks).outcome is CheckOutcome.ERROR
    assert (tmp_path / "file").read_text() == "somebody's"
