"""Pods as platforms need them: queues, priorities, nodes, proxies, certificates, accounts, budgets, closed ports."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from support.helm import CHART, PLATFORM, Manifest, manifest_of, pod_specs, rendered

AIRFLOW_AND_RUN = ("--values", str(CHART / "ways/all-in-one.yaml"), "--values", str(CHART / "ways/one-run.yaml"))


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    return rendered(*AIRFLOW_AND_RUN, "--values", str(PLATFORM))


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yield component and pod template of each kind of pod."""
    yield "driver", manifest_of(manifests, "Job", "")["spec"]["template"]
    yield "driver", yaml.safe_load(manifest_of(manifests, "ConfigMap", "-airflow")["data"]["driver.yaml"])
    yield "executor", yaml.safe_load(manifest_of(manifests, "ConfigMap", "-spark")["data"]["executor.yaml"])
    yield "airflow", manifest_of(manifests, "Deployment", "-airflow")["spec"]["template"]


def test_every_pod_has_the_values_of_its_component(manifests: list[Manifest]) -> None:
    platform = yaml.safe_load(PLATFORM.read_text())
    for component, pod in pods(manifests):
        values = platform["executors" if component == "executor" else component]
        labels = {**values["labels"], "app.kubernetes.io/component": component}
        assert pod["metadata"]["labels"].items() >= labels.items(), "the chart's own labels were overwritten"
        assert pod["metadata"]["annotations"].items() >= values["annotations"].items()
        spec = pod["spec"]
        for name in ("priorityClassName", "nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"):
            assert spec[name] == values[name], (component, name)
        assert values["volumes"][0] in spec["volumes"]
        for container in spec["containers"]:
            assert values["env"][0] in container["env"]
            assert values["volumeMounts"][0] in container["volumeMounts"]


def test_istio_adds_no_sidecar_to_pods_that_end_if_told_so(manifests: list[Manifest]) -> None:
    label = "sidecar.istio.io/inject"
    assert not any(label in pod["metadata"]["labels"] for _, pod in pods(manifests))
    manifests_without_sidecars = rendered(*AIRFLOW_AND_RUN, "--set", "istio.sidecar=false")
    labels = [(component, pod["metadata"]["labels"].get(label)) for component, pod in pods(manifests_without_sidecars)]
    assert labels == [("driver", "false"), ("driver", "false"), ("executor", "false"), ("airflow", None)]


def test_job_of_a_run_has_the_labels_of_its_queue_and_its_deadlines(manifests: list[Manifest]) -> None:
    job = manifest_of(manifests, "Job", "")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "runs"
    assert job["metadata"]["labels"]["app.kubernetes.io/component"] == "run"
    assert job["metadata"]["annotations"] == {"team": "flink"}
    assert job["spec"]["ttlSecondsAfterFinished"] == 0
    assert job["spec"]["activeDeadlineSeconds"] == 86400
    job_without_deadlines = manifest_of(rendered(*AIRFLOW_AND_RUN, "--set", "run.deadlineSeconds=null"), "Job", "")
    assert not {"ttlSecondsAfterFinished", "activeDeadlineSeconds"} & job_without_deadlines["spec"].keys()


def test_pods_use_the_proxy_for_outside_hosts_and_trust_the_bundle(manifests: list[Manifest]) -> None:
    for component, pod in pods(manifests):
        for container in pod["spec"]["containers"]:
            env = {variable["name"]: variable.get("value") for variable in container["env"]}
            for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"):
                assert env[name] == "http://proxy.corp:3128", component
            assert env["no_proxy"] == env["NO_PROXY"]
            direct_hosts = "localhost,127.0.0.1,$(KUBERNETES_SERVICE_HOST),.svc,.cluster.local,store.corp"
            assert env["NO_PROXY"] == direct_hosts
            (mount,) = (mount for mount in container["volumeMounts"] if mount["name"] == "ca-bundle")
            for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
                assert env[name] == f"{mount['mountPath']}/bundle.crt"
        (volume,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "ca-bundle")
        assert volume["configMap"] == {"name": "corporate", "items": [{"key": "roots.pem", "path": "bundle.crt"}]}


def test_images_are_named_by_their_digests(manifests: list[Manifest]) -> None:
    spark, airflow = "rescale-spark@sha256:" + "a" * 64, "rescale-airflow@sha256:" + "b" * 64
    for name, spec in pod_specs(manifests):
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            if "executor" not in name:
                assert container["image"] == (airflow if name.startswith("Deployment") else spark)
    assert f"spark.kubernetes.container.image {spark}\n" in spark_conf(manifests)


def spark_conf(manifests: list[Manifest]) -> str:
    return str(manifest_of(manifests, "ConfigMap", "-spark")["data"]["spark-defaults.conf"])


def test_existing_service_accounts_are_used() -> None:
    names = {"driver": "one", "executor": "two", "airflow": "three"}
    settings = [word for name, value in names.items() for word in ("--set", f"serviceAccounts.names.{name}={value}")]
    manifests_without_accounts = rendered(*AIRFLOW_AND_RUN, *settings, "--set", "serviceAccounts.create=false")
    assert not [m for m in manifests_without_accounts if m["kind"] == "ServiceAccount"]
    manifests_with_accounts = rendered(*AIRFLOW_AND_RUN, *settings)
    assert {m["metadata"]["name"] for m in manifests_with_accounts if m["kind"] == "ServiceAccount"} == set(
        names.values()
    )
    for manifests in (manifests_without_accounts, manifests_with_accounts):
        for component, pod in pods(manifests):
            if component != "executor":
                assert pod["spec"]["serviceAccountName"] == names[component]
        assert "spark.kubernetes.authenticate.executor.serviceAccountName two\n" in spark_conf(manifests)
        for role, name in (("-driver", "one"), ("-airflow", "three")):
            assert [subject["name"] for subject in manifest_of(manifests, "RoleBinding", role)["subjects"]] == [name]


def test_ids_of_the_security_context_can_be_left_to_openshift() -> None:
    arguments_without_ids = [
        word for name in ("runAsUser", "runAsGroup", "fsGroup") for word in ("--set", f"security.pod.{name}=null")
    ]
    for _, spec in pod_specs(rendered(*AIRFLOW_AND_RUN, *arguments_without_ids)):
        assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_disruption_budgets_keep_nodes_from_being_drained(manifests: list[Manifest]) -> None:
    driver, airflow = (
        manifest_of(manifests, "PodDisruptionBudget", "-driver"),
        manifest_of(manifests, "PodDisruptionBudget", "-airflow"),
    )
    assert driver["spec"]["selector"]["matchLabels"].items() <= next(pods(manifests))[1]["metadata"]["labels"].items()
    assert driver["spec"]["minAvailable"] == 1000000
    assert airflow["spec"]["maxUnavailable"] == 0
    assert not [m for m in rendered(*AIRFLOW_AND_RUN) if m["kind"] == "PodDisruptionBudget"]


def matches(selector: Manifest, labels: dict[str, str]) -> bool:
    """Return whether a selector of a NetworkPolicy matches a pod with these labels."""
    expressions_match = all(labels[rule["key"]] in rule["values"] for rule in selector.get("matchExpressions", ()))
    return expressions_match and selector.get("matchLabels", {}).items() <= labels.items()


def test_drivers_and_executors_accept_connections_only_from_each_other(manifests: list[Manifest]) -> None:
    policy = manifest_of(manifests, "NetworkPolicy", "-spark")["spec"]
    labels_by_component = {component: pod["metadata"]["labels"] for component, pod in pods(manifests)}
    labels_by_component |= {"test": manifest_of(manifests, "Pod", "-test-rescale")["metadata"]["labels"]}
    components = {"driver", "executor", "test"}
    assert {
        name for name, labels in labels_by_component.items() if matches(policy["podSelector"], labels)
    } == components
    (ingress,) = policy["ingress"]
    (peer,) = ingress["from"]
    assert {name for name, labels in labels_by_component.items() if matches(peer["podSelector"], labels)} == components
    assert [port["port"] for port in ingress["ports"]] == [7078, 7079]
    conf = dict(line.split(" ", 1) for line in spark_conf(manifests).splitlines() if not line.startswith("#"))
    assert {conf["spark.driver.port"], conf["spark.blockManager.port"]} == {"7078", "7079"}
    spark_rule, dns_rule, outside_rule = policy["egress"]
    assert spark_rule == {"to": ingress["from"], "ports": ingress["ports"]}
    assert {port["port"] for port in dns_rule["ports"]} == {53, 5353}
    assert [port["port"] for port in outside_rule["ports"]] == [443, 6443, 9000, 3128]
    airflow = manifest_of(manifests, "NetworkPolicy", "-airflow")["spec"]
    assert matches(airflow["podSelector"], labels_by_component["airflow"])
    assert not matches(airflow["podSelector"], labels_by_component["driver"])
    callers = yaml.safe_load(PLATFORM.read_text())["networkPolicy"]["toAirflow"]
    assert airflow["ingress"] == [{"from": callers, "ports": [{"port": 8080, "protocol": "TCP"}]}]


@pytest.mark.parametrize(("address", "port"), [("http://s3", 80), ("https://s3", 443), ("http://s3.a:5000/", 5000)])
def test_network_policy_opens_the_port_of_the_store(address: str, port: int) -> None:
    settings = (
        "--set",
        "networkPolicy.enabled=true",
        "--set",
        "networkPolicy.ports=null",
        "--set",
        f"s3.endpoint={address}",
    )
    outside_rule = manifest_of(rendered(*settings), "NetworkPolicy", "-spark")["spec"]["egress"][-1]
    assert outside_rule == {"ports": [{"port": port, "protocol": "TCP"}]}


def test_spark_authenticates_and_encrypts_unless_that_is_turned_off() -> None:
    def conf_lines(*settings: str) -> set[str]:
        return set(spark_conf(rendered(*settings)).splitlines())

    security_lines = {"spark.authenticate true", "spark.network.crypto.enabled true"}
    assert security_lines < conf_lines()
    assert not security_lines & conf_lines("--set", "spark.authenticate=false", "--set", "spark.encrypt=false")
    assert "spark.io.encryption.enabled true" in conf_lines(
        "--set-json", 'spark.conf={"spark.io.encryption.enabled": true}'
    )


def test_each_component_of_airflow_has_a_probe(manifests: list[Manifest]) -> None:
    probes: dict[str, Any] = {}
    for container in manifest_of(manifests, "Deployment", "-airflow")["spec"]["template"]["spec"]["containers"]:
        probes[container["name"]] = container["livenessProbe"]
        if container["name"] != "api-server":
            command = container["livenessProbe"]["exec"]["command"]
            assert container["startupProbe"]["exec"]["command"] == command
            compile(command[2], "probe", "exec")
            assert command[3] == container["name"].replace("-", "_"), (
                "the probe does not use the name that the api-server gives the component"
            )
    assert probes.keys() == {"api-server", "scheduler", "dag-processor", "triggerer"}
