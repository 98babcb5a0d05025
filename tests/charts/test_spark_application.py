"""A run for kubeflow's Spark operator: valid for the custom resource, and the same work as the Job."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
import yaml
from kubeflow_spark_api.models.spark_v1beta2_spark_application import SparkV1beta2SparkApplication

from support.helm import CHART, CHARTS, PLATFORM, Manifest, manifest_of, rendered

SPARK_OPERATOR = ("--values", str(CHART / "ways/spark-operator.yaml"))


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    return rendered(*SPARK_OPERATOR, "--values", str(PLATFORM), "--set", "executors.memoryOverhead=2g")


def read_as_operator(application: Manifest) -> Any:
    """Return the application as the operator's model reads it, which drops unknown fields and refuses wrong values."""
    model = SparkV1beta2SparkApplication.from_dict(application)
    assert model is not None
    return json.loads(json.dumps(model.to_dict(), default=str))


def test_spark_operator_knows_every_field_of_the_application(manifests: list[Manifest]) -> None:
    application = deepcopy(manifest_of(manifests, "SparkApplication", ""))
    assert read_as_operator(application) == application
    application["spec"]["driver"]["template"]["spec"]["nodeSelektor"] = {}
    assert read_as_operator(application) != application, "an unknown field is not noticed"
    del application["spec"]["mainApplicationFile"]
    with pytest.raises(ValueError, match="mainApplicationFile"):
        read_as_operator(application)


def test_spark_application_replaces_the_job_and_does_the_same(manifests: list[Manifest]) -> None:
    assert not [m for m in manifests if m["kind"] == "Job"]
    spec = manifest_of(manifests, "SparkApplication", "")["spec"]
    job = manifest_of(rendered(*SPARK_OPERATOR, "--set", "run.sparkOperator=false"), "Job", "")["spec"]["template"][
        "spec"
    ]
    (container,) = job["containers"]
    assert ["rescale", *spec["arguments"]] == container["args"]
    assert spec["driver"]["serviceAccount"] == job["serviceAccountName"]
    assert spec["restartPolicy"]["onFailureRetries"] == 4
    assert manifest_of(rendered(*SPARK_OPERATOR, "--set", "run.retries=0"), "SparkApplication", "")["spec"][
        "restartPolicy"
    ] == {"type": "Never"}


def test_program_of_the_spark_application_is_in_the_image_with_the_same_spark(manifests: list[Manifest]) -> None:
    spec = manifest_of(manifests, "SparkApplication", "")["spec"]
    dockerfile = (CHARTS / "images/spark/Dockerfile").read_text()
    assert "charts/images/spark/application.py /opt/rescale/bin/\n" in dockerfile
    assert spec["mainApplicationFile"] == "local:///opt/rescale/bin/application.py"
    lock_text = (CHARTS.parent / "uv.lock").read_text()
    assert f'name = "pyspark"\nversion = "{spec["sparkVersion"]}"\n' in lock_text


def test_memory_of_the_driver_adds_up_to_its_limit(manifests: list[Manifest]) -> None:
    driver = manifest_of(manifests, "SparkApplication", "")["spec"]["driver"]
    (container,) = driver["template"]["spec"]["containers"]
    assert container["name"] == "spark-kubernetes-driver", "the operator does not recognise the container by this name"
    assert container["resources"]["limits"]["memory"] == "2Gi"
    assert sum(int(driver[name].removesuffix("m")) for name in ("memory", "memoryOverhead")) == 2048


def test_application_describes_the_executors_that_the_driver_starts(manifests: list[Manifest]) -> None:
    executor = manifest_of(manifests, "SparkApplication", "")["spec"]["executor"]
    config_data = manifest_of(manifests, "ConfigMap", "-spark")["data"]
    template = yaml.safe_load(config_data["executor.yaml"])
    assert executor["template"] == {name: template[name] for name in ("metadata", "spec")}
    conf = dict(line.split(" ", 1) for line in config_data["spark-defaults.conf"].splitlines() if line[0] != "#")
    assert {name: conf[f"spark.executor.{name}"] for name in ("memory", "memoryOverhead")} == {
        name: executor[name] for name in ("memory", "memoryOverhead")
    }
    assert conf["spark.executor.instances"] == str(executor["instances"])
    assert conf["spark.executor.cores"] == str(executor["cores"])
    labels = [name for name in conf if name.startswith("spark.kubernetes.executor.label.sparkoperator.k8s.io/")]
    assert len(labels) == 3
