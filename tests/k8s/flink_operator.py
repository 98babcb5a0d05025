"""A namespace with FlinkDeployments in a real Kubernetes, and a stand-in for the operator that acts on them.

The API server checks every patch against the operator's own custom resource definition, which comes from Maven. Tests
write the status that the operator would write.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import yaml
from kubernetes import client
from kubernetes.config import kube_config

from oracle.distribution import maven_jar
from rescale.airflow.hand_overs import PatchDeployment

_VERSION = "1.10.0"
_DEFINITION = "META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"
_KIND = ("flink.apache.org", "v1beta1")
_PLURAL = "flinkdeployments"


@dataclass(frozen=True)
class FlinkNamespace:
    """A namespace for FlinkDeployments; the client `api` may do everything in it."""

    name: str
    api: Any

    def deploy(self, job: Mapping[str, Any] | None, options: Mapping[str, str]) -> PatchDeployment:
        """Make a FlinkDeployment; without a `job` it is a session cluster."""
        name = f"job-{uuid4().hex[:8]}"
        spec = {
            "image": "flink:1.20",
            "flinkVersion": "v1_20",
            "serviceAccount": "flink",
            "flinkConfiguration": dict(options),
            "jobManager": {"resource": {"cpu": 1, "memory": "1g"}},
            "taskManager": {"resource": {"cpu": 1, "memory": "1g"}},
            **({} if job is None else {"job": dict(job)}),
        }
        group, version = _KIND
        resource = {"apiVersion": f"{group}/{version}", "kind": "FlinkDeployment", "metadata": {"name": name}}
        self._objects.create_namespaced_custom_object(*_KIND, self.name, _PLURAL, {**resource, "spec": spec})
        return PatchDeployment(self.name, name)

    def spec(self, where: PatchDeployment) -> dict[str, Any]:
        deployment = self._objects.get_namespaced_custom_object(*_KIND, self.name, _PLURAL, where.name)
        spec: dict[str, Any] = deployment["spec"]
        return spec

    def edit(self, where: PatchDeployment, spec: Mapping[str, Any]) -> None:
        """Change the specification as a user would who does not use Rescale."""
        self._objects.patch_namespaced_custom_object(*_KIND, self.name, _PLURAL, where.name, {"spec": spec})

    def reconcile(self, where: PatchDeployment, job_state: str, lifecycle: str, error: str | None = None) -> None:
        """Set the status that the operator reports for the specification (`ReconciliationStatus`, `JobStatus`)."""
        wrapped = {"spec": self.spec(where), "resource_metadata": {"apiVersion": "/".join(_KIND)}}
        reconciled = {"lastReconciledSpec": json.dumps(wrapped), "state": "DEPLOYED"}
        status = {
            "jobStatus": {"jobId": uuid4().hex, "state": job_state},
            "lifecycleState": lifecycle,
            "error": error,
            "reconciliationStatus": reconciled,
        }
        self._objects.patch_namespaced_custom_object_status(*_KIND, self.name, _PLURAL, where.name, {"status": status})

    def kubeconfig(self, verbs: list[str]) -> dict[str, Any]:
        """Return a kubeconfig of a new service account with only these verbs, on FlinkDeployments of the namespace."""
        rbac, name = client.RbacAuthorizationV1Api(self.api), f"sa-{uuid4().hex[:8]}"
        meta = {"name": name}
        self.create_account(name)
        rules = [{"apiGroups": [_KIND[0]], "resources": [_PLURAL], "verbs": verbs}]
        rbac.create_namespaced_role(self.name, {"metadata": meta, "rules": rules})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.name}
        rbac.create_namespaced_role_binding(self.name, {"metadata": meta, "roleRef": role, "subjects": [subject]})
        return self.kubeconfig_of(name)

    def create_account(self, name: str) -> None:
        """Create a service account without rights."""
        client.CoreV1Api(self.api).create_namespaced_service_account(self.name, {"metadata": {"name": name}})

    def kubeconfig_of(self, account: str) -> dict[str, Any]:
        """Return a kubeconfig with the rights of a service account of the namespace."""
        request = {"spec": {"expirationSeconds": 3600}}
        token = client.CoreV1Api(self.api).create_namespaced_service_account_token(account, self.name, request)
        configuration = self.api.configuration
        cluster = {"server": configuration.host, "certificate-authority": configuration.ssl_ca_cert}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token.status.token}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }

    @property
    def _objects(self) -> Any:
        return client.CustomObjectsApi(self.api)


@contextmanager
def flink_namespace() -> Iterator[FlinkNamespace]:
    """Create a namespace in the cluster of `KUBECONFIG`, and delete it after the block."""
    api = kube_config.new_client_from_config()
    core, name = client.CoreV1Api(api), f"flink-{uuid4().hex[:8]}"
    _define(api)
    core.create_namespace({"metadata": {"name": name}})
    try:
        yield FlinkNamespace(name, api)
    finally:
        core.delete_namespace(name)


def _define(api: Any) -> None:
    """Define FlinkDeployments in the cluster, unless they are defined."""
    jar = maven_jar("flink-kubernetes-operator-api", _VERSION, "flink-operator")
    with zipfile.ZipFile(jar) as archive:
        definition = yaml.safe_load(archive.read(_DEFINITION))
    extensions = client.ApiextensionsV1Api(api)
    try:
        extensions.create_custom_resource_definition(definition)
    except client.ApiException as error:
        if error.status != 409:
            raise
    deadline = time.monotonic() + 60
    while True:
        definition_now = extensions.read_custom_resource_definition_status(definition["metadata"]["name"])
        if any(
            condition.type == "Established" and condition.status == "True"
            for condition in definition_now.status.conditions or []
        ):
            return
        assert time.monotonic() < deadline, "the custom resource is not served"
        time.sleep(0.2)
