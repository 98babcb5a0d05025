"""Helm's command line, and the chart's rendered manifests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from support.needs import need

CHARTS = Path(__file__).parents[2] / "charts"
CHART = CHARTS / "rescale"
WAYS = sorted((CHART / "ways").glob("*.yaml"))
"""Value files of the chart, one for each way to install it."""

PLATFORM = Path(__file__).parents[1] / "charts" / "platform.yaml"
"""Values with every setting of pods that a platform may require."""

KUBERNETES_VERSION = "1.34.0"

Manifest = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Helm's command line."""
    need("helm", "charts are rendered and packaged")
    return subprocess.run(["helm", *arguments], capture_output=True, text=True, check=False)


def template(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `helm template` for a release `clicks` in the namespace `flink`."""
    return helm(
        "template", "clicks", str(CHART), "--namespace", "flink", "--kube-version", KUBERNETES_VERSION, *arguments
    )


def rendered(*arguments: str) -> list[Manifest]:
    """Return the manifests of the chart with these options of Helm."""
    done = template(*arguments)
    assert done.returncode == 0, done.stderr
    return [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest]


def pod_specs(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yield name and spec of every pod in the manifests, including pod templates in ConfigMaps."""
    for manifest in manifests:
        name = f"{manifest['kind']}/{manifest['metadata']['name']}"
        if manifest["kind"] == "Pod":
            yield name, manifest["spec"]
        elif manifest["kind"] in ("Job", "Deployment"):
            yield name, manifest["spec"]["template"]["spec"]
        elif manifest["kind"] == "SparkApplication":
            for part in ("driver", "executor"):
                yield f"{name}/{part}", manifest["spec"][part]["template"]["spec"]
        elif manifest["kind"] == "ConfigMap":
            for key in manifest["data"].keys() & {"driver.yaml", "executor.yaml"}:
                yield f"{name}/{key}", yaml.safe_load(manifest["data"][key])["spec"]


def manifest_of(manifests: list[Manifest], kind: str, name: str) -> Manifest:
    """Return the only manifest of a kind whose name ends with `name`."""
    (matching,) = [m for m in manifests if m["kind"] == kind and m["metadata"]["name"].endswith(name)]
    return matching
