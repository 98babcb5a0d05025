"""A namespace for a test, with an S3 server in it, in the Kubernetes cluster that `KUBECONFIG` names."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

import httpx

from rescale.demo.processes import free_port
from support import airflow_server
from support.helm import CHART, Manifest, helm
from support.needs import need, need_kubernetes, skip_in_any_case
from support.s3 import S3Server

IMAGES = {"spark": "RESCALE_SPARK_IMAGE", "airflow": "RESCALE_AIRFLOW_IMAGE", "s3": "RESCALE_S3_IMAGE"}
"""Environment variable with the name of each image, which the cluster must have or be able to pull."""

T = TypeVar("T")

_LOOK_SECONDS = 2.0
_PATIENCE_SECONDS = 10.0

S3_SECRET = "rescale-s3"
S3_TLS = "https://s3:5443"
"""Address of the S3 server with TLS. The ConfigMap `S3_AUTHORITY` has the private authority of its certificate."""
S3_AUTHORITY = "s3-authority"

# A proxy that decrypts TLS, and passes the bytes on to port 5000.
_TLS = """
import asyncio, ssl

async def hand_on(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def serve(reader, writer):
    there = await asyncio.open_connection("127.0.0.1", 5000)
    await asyncio.gather(hand_on(reader, there[1]), hand_on(there[0], writer), return_exceptions=True)

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain("/tls/tls.crt", "/tls/tls.key")
    await (await asyncio.start_server(serve, "0.0.0.0", 5443, ssl=context)).serve_forever()

asyncio.run(main())
"""

_S3_SERVER = """
apiVersion: v1
kind: Pod
metadata: {name: s3, labels: {app: s3}}
spec:
  containers:
    - name: s3
      image: IMAGE
      imagePullPolicy: IfNotPresent
      readinessProbe: {httpGet: {path: /moto-api/, port: 5000}, periodSeconds: 1}
      resources: {requests: {cpu: 50m, memory: 128Mi}}
    - name: tls
      image: IMAGE
      imagePullPolicy: IfNotPresent
      command: [python3, -c, TLS]
      resources: {requests: {cpu: 20m, memory: 32Mi}}
      volumeMounts: [{name: tls, mountPath: /tls, readOnly: true}]
  volumes: [{name: tls, secret: {secretName: s3-tls}}]
---
apiVersion: v1
kind: Service
metadata: {name: s3}
spec: {selector: {app: s3}, ports: [{name: http, port: 5000}, {name: https, port: 5443}]}
"""


_CLAIM = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: VOLUME}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  claimRef: {name: CLAIM, namespace: NAMESPACE}
  hostPath: {path: /tmp/VOLUME}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: CLAIM}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: VOLUME, resources: {requests: {storage: 1Gi}}}
"""

_ON_THE_NODE = """
apiVersion: v1
kind: Pod
metadata: {name: on-the-node}
spec:
  restartPolicy: Never
  containers:
    - name: shell
      image: IMAGE
      imagePullPolicy: IfNotPresent
      command: [sh, -ec, COMMAND]
      securityContext: {runAsUser: 0}
      volumeMounts: [{name: host, mountPath: /host}]
  volumes: [{name: host, hostPath: {path: /tmp}}]
"""


def need_cluster() -> None:
    """Skip the test without a cluster and images for it, even with RESCALE_NO_SKIPS."""
    need_kubernetes("the chart is installed on it")
    if missing := [name for name in IMAGES.values() if not os.environ.get(name)]:
        skip_in_any_case(f"there are no images to install the chart with: {', '.join(missing)} not set")


@dataclass(frozen=True)
class Namespace:
    """A namespace of the cluster, for one test."""

    name: str

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        done = subprocess.run(
            ["kubectl", "--namespace", self.name, *arguments], input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, kind: str, *arguments: str) -> list[Manifest]:
        manifests: list[Manifest] = json.loads(self.kubectl("get", kind, "--output", "json", *arguments))["items"]
        return manifests

    def pods(self, component: str) -> dict[str, Manifest]:
        """Return the pods of a component of the chart, by name."""
        label = f"app.kubernetes.io/component={component}"
        return {pod["metadata"]["name"]: pod for pod in self.get("pods", "--selector", label)}

    def running(self, component: str) -> dict[str, Manifest]:
        return {name: pod for name, pod in self.pods(component).items() if pod["status"]["phase"] == "Running"}

    def log(self, component: str, release: str, container: str = "driver") -> str:
        """Return the output of a component's pods in a release; empty before they start."""
        labels = f"app.kubernetes.io/component={component},app.kubernetes.io/instance={release}"
        arguments = ["logs", "--tail=-1", "--container", container, "--selector", labels]
        return subprocess.run(
            ["kubectl", "--namespace", self.name, *arguments], capture_output=True, text=True, check=False
        ).stdout

    def install(self, release: str, *arguments: str) -> None:
        """Install or upgrade the chart, with the images of the tests and small resource requests."""
        options = {
            "s3.endpoint": "http://s3:5000",
            "s3.region": "us-east-1",
            "s3.secret": S3_SECRET,
            "driver.resources.requests.cpu": "100m",
            "executors.cpuRequest": "100m",
            "executors.most": "2",
            "executors.cores": "1",
            "scratch.size": "1Gi",
        }
        for image in ("spark", "airflow"):
            options[f"image.{image}.repository"], _, tag = os.environ[IMAGES[image]].rpartition(":")
            options[f"image.{image}.tag"] = tag
        settings = [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
        done = helm("upgrade", "--install", release, str(CHART), "--namespace", self.name, *settings, *arguments)
        assert done.returncode == 0, done.stderr

    def uninstall(self, release: str) -> None:
        """Uninstall a release, unless it is already uninstalled."""
        done = helm("uninstall", release, "--namespace", self.name, "--wait", "--ignore-not-found")
        assert done.returncode == 0, done.stderr

    @contextmanager
    def forward(self, service: str, port: int) -> Iterator[int]:
        """Yield a port of this machine that is forwarded to a service's HTTP port during the block.

        `kubectl port-forward` sends all connections over a single one, which may hang for ever after some thousand of
        them. So kubectl is started again when no answer comes. Clients then lose their connections, and repeat.
        """
        local = free_port()
        command = ["kubectl", "--namespace", self.name, "port-forward", f"service/{service}", f"{local}:{port}"]
        forwarding = _started(command)
        assert forwarding.poll() is None, "kubectl port-forward ended"
        ended = threading.Event()

        def watch() -> None:
            nonlocal forwarding
            while not ended.wait(_LOOK_SECONDS):
                if not _answers(local):
                    _end(forwarding)
                    forwarding = _started(command)

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            yield local
        finally:
            ended.set()
            watcher.join()
            _end(forwarding)

    @contextmanager
    def claim(self, name: str) -> Iterator[None]:
        """Claim a volume for the block: a folder of the cluster's only node, which every user may write."""
        volume = f"{self.name}-{name}"
        manifests = _CLAIM.replace("VOLUME", volume).replace("CLAIM", name).replace("NAMESPACE", self.name)
        self._on_the_node(f"mkdir -m 0777 /host/{volume}")
        self.kubectl("apply", "--filename", "-", stdin=manifests)
        try:
            yield
        finally:
            self.kubectl("delete", "--wait=false", "--filename", "-", stdin=manifests)
            self._on_the_node(f"rm -r /host/{volume}")

    def _on_the_node(self, command: str) -> None:
        """Run a shell command as root, with the node's /tmp as /host."""
        pod = _ON_THE_NODE.replace("IMAGE", os.environ[IMAGES["s3"]]).replace("COMMAND", command)
        self.kubectl("apply", "--filename", "-", stdin=pod)
        self.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/on-the-node", "--timeout=600s")
        self.kubectl("delete", "--filename", "-", stdin=pod)

    @contextmanager
    def s3(self) -> Iterator[S3Server]:
        """Run an S3 server in the namespace, and yield it as this machine reaches it; a Secret gives pods access."""
        need("openssl", "the server has a certificate")
        with tempfile.TemporaryDirectory() as folder:
            key, certificate = f"{folder}/tls.key", f"{folder}/tls.crt"
            arguments = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate]
            names = ["-subj", "/CN=s3", "-addext", "subjectAltName=DNS:s3", "-days", "2"]
            subprocess.run(["openssl", *arguments, *names], check=True, capture_output=True)
            self.kubectl("create", "secret", "tls", "s3-tls", f"--cert={certificate}", f"--key={key}")
            self.kubectl("create", "configmap", S3_AUTHORITY, f"--from-file=ca.crt={certificate}")
        server = _S3_SERVER.replace("IMAGE", os.environ[IMAGES["s3"]]).replace("TLS]", f"{json.dumps(_TLS)}]")
        self.kubectl("apply", "--filename", "-", stdin=server)
        self.kubectl("wait", "--for=condition=Ready", "pod/s3", "--timeout=600s")
        with self.forward("s3", 5000) as port:
            server = S3Server(f"http://127.0.0.1:{port}")
            keys = [f"--from-literal={name}={server.environment[name]}" for name in server.environment if "KEY" in name]
            self.kubectl("create", "secret", "generic", S3_SECRET, *keys)
            yield server


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start kubectl, and wait until it forwards the port or has ended."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait()


def _answers(port: int) -> bool:
    """Return whether an HTTP server answers on a port of this machine within a few seconds, with whatever status."""
    try:
        httpx.head(f"http://127.0.0.1:{port}/", timeout=_PATIENCE_SECONDS)
    except httpx.HTTPError:
        return False
    return True


def wait_for(ask: Callable[[], T | None], what: str) -> T:
    """Return the result of `ask` as soon as it is true; pods on a busy node may take long."""
    return airflow_server.wait_for(ask, what, seconds=600, period=1)


@contextmanager
def namespace() -> Iterator[Namespace]:
    """Yield a new namespace; delete it with its contents afterwards."""
    created = Namespace(f"rescale-{secrets.token_hex(4)}")
    created.kubectl("create", "namespace", created.name)
    try:
        yield created
    finally:
        created.kubectl("delete", "namespace", created.name, "--wait=false")
