"""The rendered chart is valid for Kubernetes, with only the rights that it needs, and read-only root file systems."""

from __future__ import annotations

import json
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from rescale.doctor.pod_rights import AIRFLOW_RIGHTS, DRIVER_RIGHTS
from rescale.insight.cluster import Cluster, bytes_of, cluster_of_environment
from rescale.storage.sides import StoreSide
from support.helm import (
    CHART,
    CHARTS,
    KUBERNETES_VERSION,
    PLATFORM,
    WAYS,
    Manifest,
    helm,
    manifest_of,
    pod_specs,
    rendered,
)
from support.slow import slow_but

RUN = ("--set", "run.source=s3://a/s", "--set", "run.target=s3://a/t")

VERSIONS = ("1.31", "1.34", "1.37")

WINDOWS = """
windows:
  clicks-out:
    schedule: "0 6 * * MON-FRI"
    timezone: Europe/Berlin
    closes: "07:30"
    source: s3://state/clicks/savepoints
    target: s3://state/clicks/rescaled/{window}-{date}
    parallelism: 16
"""
SETTINGS = """
settings:
  tasks: {owner: streaming}
  approval: {four_eyes: true}
"""


@pytest.fixture(scope="module")
def all_manifests(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Manifest]]:
    """Return the manifests by the values that they are rendered with.

    These are the defaults, each shipped values file, and `everything`: all of these files except that for Spark's
    operator, with windows, settings and further values.
    """
    windows = tmp_path_factory.mktemp("values") / "windows.yaml"
    windows.write_text(WINDOWS + SETTINGS)
    ways = {way.stem: rendered("--values", str(way)) for way in WAYS}
    job_ways = [way for way in WAYS if way.stem != "spark-operator"]
    everything = [word for file in (*job_ways, windows, PLATFORM) for word in ("--values", str(file))]
    everything += ["--set", "handover.namespaces={jobs}", "--set", "scratch.storageClass=fast"]
    everything += ["--set", "airflow.database.external=true", "--set", "airflow.database.claim=airflow"]
    everything += ["--set", "image.pullSecrets={registry}", "--set", "test.target=s3://flink/tests"]
    return {"default": rendered(), **ways, "everything": rendered(*everything)}


def test_chart_ships_four_examples() -> None:
    assert [way.stem for way in WAYS] == ["all-in-one", "existing-airflow", "one-run", "spark-operator"]


@pytest.mark.parametrize("values", [None, *WAYS], ids=lambda way: way.stem if way else "default")
def test_helm_lint_finds_nothing(values: Path | None) -> None:
    process = helm(
        "lint", "--strict", str(CHART), "--kube-version", KUBERNETES_VERSION, *(["-f", str(values)] if values else [])
    )
    assert process.returncode == 0, process.stdout


@pytest.mark.parametrize("version", slow_but(VERSIONS[-1].__eq__, VERSIONS))
def test_every_manifest_is_valid(all_manifests: dict[str, list[Manifest]], version: str) -> None:
    for manifests in all_manifests.values():
        for manifest in manifests:
            if manifest["kind"] != "SparkApplication":
                kubernetes_validate.validate(manifest, version, strict=True)
        for _, spec in pod_specs(manifests):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
            kubernetes_validate.validate(pod, version, strict=True)


def test_chart_asks_for_few_rights_and_none_outside_namespaces(all_manifests: dict[str, list[Manifest]]) -> None:
    for manifests in all_manifests.values():
        assert {m["kind"] for m in manifests} <= {
            *("ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Job", "Deployment", "Service", "Pod"),
            *("SparkApplication", "NetworkPolicy", "PodDisruptionBudget"),
        }
        for role in (m for m in manifests if m["kind"] == "Role"):
            for rule in role["rules"]:
                assert "*" not in json.dumps(rule)
                assert not {"secrets", "pods/exec"} & set(rule["resources"])


def test_flink_deployments_can_be_patched_only_in_namespaces_of_the_hand_over(
    all_manifests: dict[str, list[Manifest]],
) -> None:
    def handover_roles(way: str) -> list[Manifest]:
        roles = [m for m in all_manifests[way] if m["kind"] == "Role"]
        return [r for r in roles if any("flinkdeployments" in rule["resources"] for rule in r["rules"])]

    (role,) = handover_roles("everything")
    assert role["metadata"]["namespace"] == "jobs"
    assert role["rules"] == [
        {
            "apiGroups": ["flink.apache.org"],
            "resources": ["flinkdeployments", "flinksessionjobs"],
            "verbs": ["get", "patch"],
        }
    ]
    assert all(not handover_roles(way) for way in all_manifests if way != "everything")


def test_doctor_asks_for_the_rights_that_the_chart_gives(all_manifests: dict[str, list[Manifest]]) -> None:
    for name, rights in (("driver", DRIVER_RIGHTS), ("airflow", AIRFLOW_RIGHTS)):
        role = manifest_of(all_manifests["all-in-one"], "Role", f"-{name}")
        verbs_by_resource = {resource: tuple(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}
        assert verbs_by_resource == rights


def test_single_run_has_no_rights_of_airflow(all_manifests: dict[str, list[Manifest]]) -> None:
    names = {(m["kind"], m["metadata"]["name"]) for m in all_manifests["one-run"] if m["kind"] == "Role"}
    assert names == {("Role", "clicks-rescale-driver")}


def test_pods_run_without_privileges(all_manifests: dict[str, list[Manifest]]) -> None:
    for manifests in all_manifests.values():
        for name, spec in pod_specs(manifests):
            assert spec["securityContext"]["runAsNonRoot"] is True, name
            assert not any("hostPath" in volume for volume in spec["volumes"]), name
            assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
            for container in (*spec["containers"], *spec.get("initContainers", [])):
                security = container["securityContext"]
                assert security["readOnlyRootFilesystem"] is True, name
                assert security["allowPrivilegeEscalation"] is False, name
                assert security["capabilities"] == {"drop": ["ALL"]}, name
                requested_resources = container["resources"].get("requests", {}).keys()
                if "executor" not in name:  # Spark sets CPU and memory of an executor
                    assert requested_resources >= {"cpu", "memory"}, name
                tmp_volumes = [mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/tmp"]
                node_volumes = [
                    volume for volume in spec["volumes"] if volume["name"] in tmp_volumes and "emptyDir" in volume
                ]
                assert ("ephemeral-storage" in requested_resources) == bool(node_volumes), name


def test_secrets_are_referred_to_and_never_written(all_manifests: dict[str, list[Manifest]]) -> None:
    for manifests in all_manifests.values():
        for name, spec in pod_specs(manifests):
            for container in (*spec["containers"], *spec.get("initContainers", [])):
                for variable in container.get("env", ()):
                    if any(word in variable["name"] for word in ("SECRET", "PASSWORD_", "KEY", "CONN")):
                        assert "value" not in variable, (name, variable)
    for name, spec in pod_specs(all_manifests["one-run"]):
        assert spec["containers"][0]["envFrom"] == [{"secretRef": {"name": "rescale-s3"}}], name


def test_executor_has_no_token(all_manifests: dict[str, list[Manifest]]) -> None:
    manifests = all_manifests["one-run"]
    assert manifest_of(manifests, "ServiceAccount", "-executor")["automountServiceAccountToken"] is False
    template = yaml.safe_load(manifest_of(manifests, "ConfigMap", "-spark")["data"]["executor.yaml"])
    assert template["spec"]["automountServiceAccountToken"] is False


def test_job_runs_the_command_line_and_fails_at_once_with_a_final_exit_code() -> None:
    values = [
        "run.source=s3://a/s",
        "run.target=s3://a/t",
        "run.maxParallelism=1000",
        "run.options={--format=canonical}",
    ]
    job = manifest_of(rendered(*(word for value in values for word in ("--set", value))), "Job", "")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["args"] == [
        *("rescale", "run", "s3://a/s", "--target", "s3://a/t", "--master", "k8s://https://kubernetes.default.svc"),
        *("--max-parallelism", "1000", "--format=canonical"),
    ]
    final_rule, drain_rule = job["spec"]["podFailurePolicy"]["rules"]
    assert (final_rule["action"], final_rule["onExitCodes"]["values"]) == ("FailJob", [2, 3, 4, 5])
    assert drain_rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def test_database_of_airflow_lies_in_the_pod_unless_a_claim_is_named() -> None:
    def home_volume(*settings: str) -> Manifest:
        manifests = rendered("--values", str(CHART / "ways/all-in-one.yaml"), *settings)
        volumes = manifest_of(manifests, "Deployment", "-airflow")["spec"]["template"]["spec"]["volumes"]
        return next(volume for volume in volumes if volume["name"] == "home")

    assert home_volume() == {"name": "home", "emptyDir": {}}
    volume_of_claim = {"name": "home", "persistentVolumeClaim": {"claimName": "kept"}}
    assert home_volume("--set", "airflow.database.claim=kept") == volume_of_claim


def test_settings_of_the_store_reach_every_pod() -> None:
    settings = (
        "s3.addressingStyle=virtual",
        *("s3.encryption=aws:kms", "s3.kmsKey=alias/flink", "s3.requesterPays=true", "s3.region=us-east-1"),
    )
    arguments = (
        "--values",
        str(CHART / "ways/existing-airflow.yaml"),
        *(word for setting in settings for word in ("--set", setting)),
    )
    config_map = manifest_of(rendered(*arguments), "ConfigMap", "-airflow")
    driver_env = yaml.safe_load(config_map["data"]["driver.yaml"])["spec"]["containers"][0]["env"]
    airflow_env = yaml.safe_load(config_map["data"]["airflow-values.yaml"])["env"]
    expected = {
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true",
        "AWS_SERVER_SIDE_ENCRYPTION": "aws:kms",
        "AWS_SSE_KMS_KEY_ID": "alias/flink",
        "AWS_REQUEST_PAYER": "requester",
    }
    for env in (driver_env, airflow_env):
        assert expected.items() <= {variable["name"]: variable.get("value") for variable in env}.items()


def test_access_to_the_source_alone_reaches_every_pod() -> None:
    settings = ("s3.secret=of-target", "s3.source.secret=of-source", "s3.source.region=eu-west-1")
    settings += ("s3.source.endpoint=https://store:9000", "s3.source.addressingStyle=path")
    arguments = ["--values", str(CHART / "ways/existing-airflow.yaml")]
    config_data = manifest_of(
        rendered(*arguments, *(word for setting in settings for word in ("--set", setting))), "ConfigMap", "-airflow"
    )["data"]
    driver_container = yaml.safe_load(config_data["driver.yaml"])["spec"]["containers"][0]
    airflow_values = yaml.safe_load(config_data["airflow-values.yaml"])
    expected = {
        "RESCALE_SOURCE_AWS_ENDPOINT_URL": "https://store:9000",
        "RESCALE_SOURCE_AWS_REGION": "eu-west-1",
        "RESCALE_SOURCE_AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
    }
    secret_refs = [
        {"secretRef": {"name": "of-target"}},
        {"prefix": StoreSide.SOURCE.prefix, "secretRef": {"name": "of-source"}},
    ]
    for env, env_from in (
        (driver_container["env"], driver_container["envFrom"]),
        (airflow_values["env"], yaml.safe_load(airflow_values["extraEnvFrom"])),
    ):
        assert expected.items() <= {variable["name"]: variable.get("value") for variable in env}.items()
        assert env_from == secret_refs


def test_values_for_the_chart_of_airflow_load_dags_and_pod_template_and_give_access() -> None:
    arguments = ("--values", str(CHART / "ways/existing-airflow.yaml"), "--set", "s3.region=us-east-1")
    config_map = manifest_of(rendered(*arguments), "ConfigMap", "-airflow")
    assert config_map["metadata"]["namespace"] == "airflow", (
        "Airflow's pods cannot mount a ConfigMap of another namespace"
    )
    driver = yaml.safe_load(config_map["data"]["driver.yaml"])
    assert driver["metadata"]["namespace"] == "flink"
    values = yaml.safe_load(config_map["data"]["airflow-values.yaml"])
    (mount,) = values["volumeMounts"]
    assert values["volumes"] == [{"name": mount["name"], "configMap": {"name": "clicks-rescale-airflow"}}]
    pod_variable, cluster_variable, *store_variables = values["env"]
    assert pod_variable == {"name": "RESCALE_DRIVER_POD", "value": f"{mount['mountPath']}/driver.yaml"}
    assert cluster_variable == {
        "name": "RESCALE_CLUSTER",
        "value": "executors=4 cores=2 scratch=20Gi driver-memory=2Gi",
    }
    (container,) = driver["spec"]["containers"]
    assert store_variables == [variable for variable in container["env"] if variable["name"].startswith("AWS_")] != []
    assert yaml.safe_load(values["extraEnvFrom"]) == container["envFrom"]
    paths = [bundle["kwargs"].get("path") for bundle in values["dagProcessor"]["dagBundleConfigList"]]
    assert paths == [None, "/opt/rescale/share/rescale/dags"]
    assert f"COPY dags {paths[1]}\n" in (CHARTS / "images/existing-airflow/Dockerfile").read_text()


def test_pod_template_is_in_each_namespace_with_an_airflow() -> None:
    own_airflow = ("--set", "airflow.enabled=true", "--set", "airflow.secret=s")
    existing_airflow = (
        "--set",
        "existingAirflow.serviceAccounts[0].name=a",
        "--set",
        "existingAirflow.serviceAccounts[1].name=b",
    )

    def namespaces(*settings: str) -> list[str]:
        config_maps = [
            m for m in rendered(*settings) if m["kind"] == "ConfigMap" and m["metadata"]["name"].endswith("-airflow")
        ]
        return [m["metadata"]["namespace"] for m in config_maps]

    assert (
        namespaces(*own_airflow)
        == namespaces(*existing_airflow)
        == namespaces(*own_airflow, *existing_airflow)
        == ["flink"]
    )
    other_namespace = ("--set", "existingAirflow.serviceAccounts[1].namespace=airflow")
    assert namespaces(*existing_airflow, *other_namespace) == ["flink", "airflow"]


def test_plans_are_estimated_for_the_cluster_in_the_values(all_manifests: dict[str, list[Manifest]]) -> None:
    manifests = all_manifests["all-in-one"]
    spec = manifest_of(manifests, "Deployment", "-airflow")["spec"]["template"]["spec"]
    driver = yaml.safe_load(manifest_of(manifests, "ConfigMap", "-airflow")["data"]["driver.yaml"])["spec"]
    for container in (*spec["containers"], driver["containers"][0]):
        environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        expected = Cluster(4, 2, scratch=20 << 30, driver_memory=2 << 30)
        assert cluster_of_environment(environment) == expected


@pytest.mark.parametrize("size", ["1.5Ti", "0.5Gi", "500G", "2000000k", "640Mi", "2000000000"])
def test_sizes_that_the_values_may_have_can_be_read(size: str) -> None:
    values = {"scratch.size": size, "driver.resources.limits.memory": size, "driver.memory": "1m"}
    options = [f"--set={name}={value}" for name, value in values.items()]
    specs = {name: spec for name, spec in pod_specs(rendered(*RUN, *options)) if name.startswith("Job/")}
    for spec in specs.values():
        environment = {entry["name"]: entry.get("value", "") for entry in spec["containers"][0]["env"]}
        cluster = cluster_of_environment(environment)
        assert cluster is not None
        assert cluster.scratch == cluster.driver_memory == bytes_of(size)
    assert specs


def test_large_numbers_are_written_in_full(tmp_path: Path) -> None:
    """Helm itself writes 1.048576e+08, which neither Spark nor the command line reads."""
    values = {
        "spark": {"conf": {"spark.a": 104857600, "spark.b": 0.6, "spark.c": True, "spark.d": "one two"}},
        "driver": {"resources": {"limits": {"memory": 4 << 30}}},
        "scratch": {"size": 20 << 30},
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    manifests = rendered("--values", str(tmp_path / "values.yaml"), *RUN)
    conf_lines = manifest_of(manifests, "ConfigMap", "-spark")["data"]["spark-defaults.conf"].splitlines()
    assert conf_lines[-4:] == ["spark.a 104857600", "spark.b 0.6", "spark.c true", "spark.d one two"]
    (job,) = [m for m in manifests if m["kind"] == "Job"]
    spec = job["spec"]["template"]["spec"]
    environment = {entry["name"]: entry.get("value", "") for entry in spec["containers"][0]["env"]}
    assert cluster_of_environment(environment) == Cluster(4, 2, scratch=20 << 30, driver_memory=4 << 30)
    (scratch_volume,) = [volume for volume in spec["volumes"] if volume["name"] == "spark-local-dir-1"]
    assert scratch_volume["emptyDir"] == {"sizeLimit": str(20 << 30)}


def test_resources_of_the_driver_may_be_removed() -> None:
    """The value `null` removes them."""
    for part in ("limits", "requests"):
        for name, spec in pod_specs(rendered(*RUN, "--set", f"driver.resources.{part}=null")):
            if name.startswith("Job/"):
                resources = spec["containers"][0]["resources"]
                assert "memory" not in (resources[part] or {})
    manifests_without_requests = rendered(
        *RUN, "--set", "run.sparkOperator=true", "--set", "driver.resources.requests=null"
    )
    assert "coreRequest" not in manifest_of(manifests_without_requests, "SparkApplication", "")["spec"]["driver"]


def test_windows_and_settings_are_files_of_airflow(all_manifests: dict[str, list[Manifest]]) -> None:
    manifests = [m for m in all_manifests["everything"] if m["metadata"]["name"] == "clicks-rescale-airflow"]
    for manifest in (m for m in manifests if m["kind"] == "ConfigMap"):
        assert yaml.safe_load(manifest["data"]["windows.yaml"]) == yaml.safe_load(WINDOWS)["windows"]
        assert yaml.safe_load(manifest["data"]["settings.yaml"]) == yaml.safe_load(SETTINGS)["settings"]
    spec = manifest_of(all_manifests["everything"], "Deployment", "-airflow")["spec"]["template"]["spec"]
    for container in spec["containers"]:
        assert {"name": "RESCALE_WINDOWS", "value": "/etc/rescale/airflow/windows.yaml"} in container["env"]
        assert {"name": "RESCALE_SETTINGS", "value": "/etc/rescale/airflow/settings.yaml"} in container["env"]
    assert "windows.yaml" not in manifest_of(all_manifests["all-in-one"], "ConfigMap", "-airflow")["data"]
