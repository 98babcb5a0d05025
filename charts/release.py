"""Makes everything that is published of a version, in a folder; of the network it needs package registries alone.

    uv run python charts/release.py --registry ghcr.io/somebody --home https://github.com/somebody/rescale

It leaves a wheel and its sources, an image of each kind for all processors (an OCI archive), the chart as a package
that knows the images by name and digest, all that `uv.lock` brings along (CycloneDX), and checksums of these. `--push`
also puts images and chart into the registry. `--key` signs chart and checksums with GnuPG; images are signed where
they lie, by their digests, which stand in `images.json`.

Images take buildah, and mmdebstrap for a Debian to build them on, unless `--base` names one; another processor than
this machine's takes qemu-user-static.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import yaml

PROJECT = Path(__file__).parents[1]
CHART = PROJECT / "charts" / "rescale"
KINDS = ("spark", "airflow")
RELEASE = "bookworm"
PACKAGES = "ca-certificates,python3,python3-venv"

Digests = dict[str, str]


def main(words: Sequence[str] | None = None) -> None:
    arguments = parser().parse_args(words)
    into = arguments.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    if any(into.iterdir()):
        raise SystemExit(f"{into} is not empty: name another folder with --into")
    version = project_version()
    run("uv", "build", "--quiet", "--out-dir", str(into), cwd=PROJECT)
    (into / ".gitignore").unlink(missing_ok=True)
    bill_of_materials(into / f"rescale-{version}.cdx.json")
    digests: Digests = {}
    if arguments.arch:
        digests = {kind: image(kind, version, into, arguments) for kind in KINDS}
        (into / "images.json").write_text(json.dumps(digests, indent=2) + "\n")
    package = chart(version, into, digests, arguments)
    if arguments.push:
        run("helm", "push", str(package), f"oci://{arguments.registry}")
    checksums(into, arguments.key)
    for file in sorted(into.iterdir()):
        print(f"{file.stat().st_size:>12,}  {file.name}")


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--into", type=Path, default=PROJECT / "dist", help="an empty folder (default: dist)")
    found.add_argument("--registry", default="", help="where images and chart are published, such as ghcr.io/somebody")
    found.add_argument("--home", default="", help="the project's address, for the chart")
    found.add_argument(
        "--arch",
        type=lambda text: [word for word in text.split(",") if word],
        default=["amd64", "arm64"],
        help="processors of images (default: amd64,arm64); empty: no images",
    )
    found.add_argument("--base", default="", help="the image to build on; empty: a Debian made of its packages")
    found.add_argument("--build-option", action="append", default=[], help="more options of `buildah build`")
    found.add_argument("--push", action="store_true", help="put images and chart into the registry, too")
    found.add_argument("--key", default="", help="the key of GnuPG that signs chart and checksums")
    return found


def project_version() -> str:
    """The version of the package, which is that of the chart."""
    version = str(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"])
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    if {described["version"], described["appVersion"]} != {version}:
        raise SystemExit(f"the package is {version}, and the chart {described['version']} of {described['appVersion']}")
    return version


def bill_of_materials(file: Path) -> None:
    """Everything that images hold of Python, as it is locked."""
    kinds = ("--extra", "spark", "--extra", "tracing", "--extra", "airflow", "--group", "postgres")
    words = ("--quiet", "--frozen", "--no-dev", *kinds, "--output-file", str(file))
    run("uv", "export", "--format", "cyclonedx1.5", *words, cwd=PROJECT)


def image(kind: str, version: str, into: Path, arguments: argparse.Namespace) -> str:
    """Builds an image for all processors, as an OCI archive; its digest."""
    name = (
        f"{arguments.registry}/rescale-{kind}:{version}"
        if arguments.registry
        else f"localhost/rescale-{kind}:{version}"
    )
    subprocess.run(["buildah", "rmi", "--force", name], capture_output=True, check=False)
    for arch in arguments.arch:
        words = ["--arch", arch, "--manifest", name, "--build-arg", f"BASE_IMAGE={arguments.base or base(arch)}"]
        file = PROJECT / "charts" / "images" / kind / "Dockerfile"
        run("buildah", "build", *words, *arguments.build_option, "--file", str(file), str(PROJECT))
    archive = into / f"rescale-{kind}-{version}.oci.tar"
    digest = into / "digest"
    run("buildah", "manifest", "push", "--all", "--digestfile", str(digest), name, f"oci-archive:{archive}:{version}")
    if arguments.push:
        run("buildah", "manifest", "push", "--all", "--digestfile", str(digest), name, f"docker://{name}")
    found = digest.read_text().strip()
    digest.unlink()
    return found


def base(arch: str) -> str:
    """A Debian with Python for a processor, made once of Debian's packages."""
    name = f"localhost/rescale-base:{RELEASE}-{arch}"
    if subprocess.run(["buildah", "inspect", "--type", "image", name], capture_output=True, check=False).returncode:
        with tempfile.TemporaryDirectory() as folder:
            root = f"{folder}/root.tar"
            run("mmdebstrap", "--variant=minbase", f"--architectures={arch}", f"--include={PACKAGES}", RELEASE, root)
            container = run("buildah", "from", "--arch", arch, "scratch")
            run("buildah", "add", container, root, "/")
            run("buildah", "commit", "--rm", container, name)
    return name


def chart(version: str, into: Path, digests: Digests, arguments: argparse.Namespace) -> Path:
    """The chart as a package that knows its home and the images that were made for it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(CHART, Path(folder, "rescale")))
        described = yaml.safe_load((copy / "Chart.yaml").read_text())
        if arguments.home:
            described |= {"home": arguments.home, "sources": [arguments.home]}
        values = (copy / "values.yaml").read_text()
        images = []
        for kind in KINDS:
            repository = f"{arguments.registry}/rescale-{kind}" if arguments.registry else f"rescale-{kind}"
            pinned = f"{repository}@{digests[kind]}" if kind in digests else f"{repository}:{version}"
            platforms = [f"linux/{arch}" for arch in arguments.arch or ("amd64", "arm64")]
            images.append({"name": kind, "image": pinned, "platforms": platforms})
            values = values.replace(f"    repository: rescale-{kind}\n", f"    repository: {repository}\n")
            start = values.index(f"    repository: {repository}\n")
            pinned_values = values[start:].replace('    digest: ""\n', f'    digest: "{digests.get(kind, "")}"\n', 1)
            values = values[:start] + pinned_values
        described["annotations"]["artifacthub.io/images"] = yaml.safe_dump(images, sort_keys=False)
        (copy / "values.yaml").write_text(values)
        (copy / "Chart.yaml").write_text(yaml.safe_dump(described, sort_keys=False, width=1000))
        signing = []
        if arguments.key:
            keyring = Path(folder, "keyring")
            keyring.touch(0o600)
            keyring.write_bytes(gpg("--export-secret-keys", arguments.key))
            signing = ["--sign", "--key", arguments.key, "--keyring", str(keyring)]
        run("helm", "package", *signing, "--destination", str(into), str(copy))
    return into / f"rescale-{version}.tgz"


def checksums(into: Path, key: str) -> None:
    """`SHA256SUMS` of all files, as `sha256sum --check` reads it; with a key, signed."""
    file = into / "SHA256SUMS"
    lines = []
    for made in sorted(into.iterdir()):
        with made.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {made.name}\n")
    file.write_text("".join(lines))
    if key:
        gpg("--armor", "--detach-sign", "--local-user", key, "--output", f"{file}.asc", str(file))


def gpg(*words: str) -> bytes:
    return subprocess.run(["gpg", "--batch", "--yes", *words], stdout=subprocess.PIPE, check=True).stdout


def run(*words: str, cwd: Path | None = None) -> str:
    """What a command says; shows it, and ends with its error."""
    print(f"$ {' '.join(words).replace(str(PROJECT), '.')}", flush=True)
    environment = {"BUILDAH_ISOLATION": "chroot", **os.environ}
    done = subprocess.run(words, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{words[0]} ended with {done.returncode}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
