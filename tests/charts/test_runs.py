"""The Job of a rescale: its name, values that make another Job, the chart's notes, and names with odd characters."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.helm import CHART, KUBERNETES_VERSION, Manifest, helm, manifest_of, rendered
from support.needs import need

RUN = ("--set", "run.source=s3://a/s", "--set", "run.target=s3://a/t", "--set", "s3.secret=keys")


def job_name(*settings: str) -> str:
    return str(manifest_of(rendered(*RUN, *settings), "Job", "")["metadata"]["name"])


@pytest.mark.parametrize(
    "change",
    [
        "run.parallelism=3",
        "s3.endpoint=http://other",
        "s3.secret=others",
        "image.spark.tag=b",
        "driver.resources.limits.memory=3Gi",
        "driver.labels.a=b",
        "executors.memory=2g",
        "executors.labels.a=b",
        "spark.encrypt=false",
    ],
)
def test_value_that_changes_the_pods_makes_another_job(change: str) -> None:
    assert job_name("--set", change) != job_name()


@pytest.mark.parametrize(
    "change", ["run.retries=1", "run.deadlineSeconds=60", "run.labels.a=b", "run.ttlSecondsAfterFinished=9"]
)
def test_value_that_a_job_allows_to_change_keeps_the_job(change: str) -> None:
    assert job_name("--set", change) == job_name()


def test_missing_secret_ends_the_run_with_a_message(tmp_path: Path) -> None:
    job = manifest_of(rendered(*RUN), "Job", "")["spec"]
    (container,) = job["template"]["spec"]["initContainers"]
    exit_codes = {"containerName": container["name"], "operator": "In", "values": [2]}
    assert {"action": "FailJob", "onExitCodes": exit_codes} in job["podFailurePolicy"]["rules"]
    (mount,) = container["volumeMounts"]
    (volume,) = (volume for volume in job["template"]["spec"]["volumes"] if volume["name"] == mount["name"])
    assert volume["secret"] == {"secretName": "keys", "optional": True}
    shell, option, script, *arguments = container["command"]
    script = script.replace(mount["mountPath"], str(tmp_path)).replace("sleep 5", "sleep 0")
    command = [shell, option, script, *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert "the Secret keys does not exist in this namespace" in process.stderr
    (tmp_path / "AWS_ACCESS_KEY_ID").write_text("a")
    assert subprocess.run(command, check=False).returncode == 0
    assert (
        "initContainers"
        not in manifest_of(rendered(*RUN, "--set", "s3.secret="), "Job", "")["spec"]["template"]["spec"]
    )


@pytest.fixture(scope="module")
def chart_of_notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the chart with its notes in a manifest, because Helm shows notes only with a cluster."""
    chart = shutil.copytree(CHART, tmp_path_factory.mktemp("notes") / "rescale")
    notes = '{{ dict "notes" (include (print $.Template.BasePath "/NOTES.txt") .) | toJson }}'
    (chart / "templates" / "notes.yaml").write_text(notes)
    return chart


def notes_of(chart: Path, *settings: str) -> str:
    arguments = ("--namespace", "flink", "--kube-version", KUBERNETES_VERSION, "-s", "templates/notes.yaml")
    process = helm("template", "clicks", str(chart), *arguments, *settings)
    assert process.returncode == 0, process.stderr
    return str(yaml.safe_load(process.stdout)["notes"])


def test_notes_tell_how_to_follow_the_logs_and_why_pods_may_not_start(chart_of_notes: Path) -> None:
    shown_notes = notes_of(chart_of_notes, *RUN)
    (job,) = re.findall(r"job/(clicks-rescale-run-[0-9a-f]{8})", shown_notes)
    assert f"until kubectl -n flink logs -f --tail=-1 job/{job}; do sleep 5; done" in shown_notes
    assert f"kubectl -n flink describe pods -l batch.kubernetes.io/job-name={job}" in shown_notes
    assert "without the Secret keys, the run fails" in shown_notes
    assert "s3://a/t.rescale/certificate.json" in shown_notes
    assert "every pod of the namespace flink" in shown_notes
    shown_notes = notes_of(chart_of_notes, *RUN, "--set", "run.sparkOperator=true")
    assert re.search(r"logs -f --tail=-1 clicks-rescale-run-[0-9a-f]{8}-driver;", shown_notes)
    shown_notes = notes_of(chart_of_notes, "--set", "airflow.enabled=true", "--set", "airflow.secret=s")
    assert "describe pods -l app.kubernetes.io/component=airflow,app.kubernetes.io/instance=clicks" in shown_notes


def test_long_release_names_do_not_collide_and_odd_ones_become_valid() -> None:
    def manifests_of(release: str, namespace: str = "flink") -> list[Manifest]:
        arguments = ("--namespace", namespace, "--kube-version", KUBERNETES_VERSION, *RUN)
        airflow_settings = ("--set", "airflow.enabled=true", "--set", "airflow.secret=0x1")
        process = helm("template", release, str(CHART), *arguments, *airflow_settings)
        assert process.returncode == 0, process.stderr
        return [manifest for manifest in yaml.safe_load_all(process.stdout) if manifest]

    name_prefix = "rescale-of-the-clicks-of-all-customers-and"
    names = [manifest_of(manifests_of(f"{name_prefix}-{end}"), "Job", "")["metadata"]["name"] for end in ("one", "two")]
    assert len(set(names)) == 2
    for release in (f"{name_prefix}-one", "123", "a.b"):
        for manifest in manifests_of(release, "456"):
            assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", manifest["metadata"]["name"])
            assert manifest["metadata"]["labels"]["app.kubernetes.io/instance"] == release
            assert manifest["metadata"].get("namespace", "456") == "456"
            for subject in manifest.get("subjects", ()):
                assert subject["namespace"] == "456"


@pytest.mark.parametrize("target", ["", "s3://a/tests/"])
def test_doctor_of_the_helm_test_checks_the_target_of_its_rescale(target: str) -> None:
    pods = {
        name: manifest_of(rendered("--set", f"test.target={target}"), "Pod", f"-test-{name}")
        for name in ("doctor", "rescale")
    }
    doctor_args, rescale_args = (pod["spec"]["containers"][0]["args"] for pod in pods.values())
    assert doctor_args[2].startswith("exec rescale doctor --source ")
    assert doctor_args[2].endswith(' --target "$1"')
    assert doctor_args[4] == rescale_args[4] == ("s3://a/tests/clicks-1" if target else "/tmp/rescaled")
    assert pods["doctor"]["metadata"]["annotations"]["helm.sh/hook"] == "test"


def test_doctor_of_the_helm_test_runs(tmp_path: Path) -> None:
    need("java", "the doctor looks for it")
    shell, options, script, *_ = manifest_of(rendered(), "Pod", "-test-doctor")["spec"]["containers"][0]["args"]
    search_path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = [shell, options, script, "sh", str(tmp_path / "rescaled")]
    process = subprocess.run(
        command, env={**os.environ, "PATH": search_path}, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert " checks: 0 errors" in process.stdout


def test_values_are_not_interpreted_by_a_shell() -> None:
    target = "s3://a/$(reboot)/`x`; 'y' \"z\""
    pod = manifest_of(rendered("--set-string", f"test.target={target}"), "Pod", "-test-rescale")
    shell, options, script, *arguments = pod["spec"]["containers"][0]["args"]
    assert (shell, options) == ("sh", "-ec")
    assert "reboot" not in script
    assert arguments == ["sh", f"{target}/clicks-1", "k8s://https://kubernetes.default.svc"]
    assert '--target "$1"' in script
    assert '--master "$2"' in script


def test_pods_of_a_job_know_which_job_they_are_a_try_of() -> None:
    (container,) = manifest_of(rendered(*RUN), "Job", "")["spec"]["template"]["spec"]["containers"]
    field_by_variable = {entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"] for entry in container["env"][:4]}
    assert field_by_variable["RESCALE_JOB_NAME"] == "metadata.labels['batch.kubernetes.io/job-name']"
    assert field_by_variable["RESCALE_JOB_UID"] == "metadata.labels['batch.kubernetes.io/controller-uid']"
