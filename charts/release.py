"""Build all published files of a version in a folder. Only package registries are accessed.

    uv run python charts/release.py --registry ghcr.io/somebody --home https://github.com/somebody/rescale

The files are a wheel and its sources, an image of each kind for all processors (an OCI archive), the chart as a package
with the names and digests of the images, a bill of materials of the Python packages in the images (CycloneDX), and
checksums of these files. `--push` also pushes images and chart to the registry. `--key` signs chart and checksums with
GnuPG. Images are signed in the registry, by their digests, which are in `images.json`.

Building images needs buildah, and mmdebstrap for their Debian base unless `--base` names a base image. Building for
other processors than this machine's needs qemu-user-static.
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
IMAGE_KINDS = ("spark", "airflow")
DEBIAN_RELEASE = "bookworm"
DEBIAN_PACKAGES = "ca-certificates,python3,python3-venv"

DigestByKind = dict[str, str]


def main(command_line: Sequence[str] | None = None) -> None:
    """Build the release that the command line describes."""
    arguments = parser().parse_args(command_line)
    output = arguments.into.resolve()
    output.mkdir(parents=True, exist_ok=True)
    if any(output.iterdir()):
        raise SystemExit(f"{output} is not empty: name another folder with --into")
    version = project_version()
    run("uv", "build", "--quiet", "--out-dir", str(output), cwd=PROJECT)
    (output / ".gitignore").unlink(missing_ok=True)
    write_bill_of_materials(output / f"flink-rescale-{version}.cdx.json")
    digests: DigestByKind = {}
    if arguments.arch:
        digests = {kind: build_image(kind, version, output, arguments) for kind in IMAGE_KINDS}
        (output / "images.json").write_text(json.dumps(digests, indent=2) + "\n")
    package = package_chart(version, output, digests, arguments)
    if arguments.push:
        run("helm", "push", str(package), f"oci://{arguments.registry}")
    write_checksums(output, arguments.key)
    for path in sorted(output.iterdir()):
        print(f"{path.stat().st_size:>12,}  {path.name}")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--into", type=Path, default=PROJECT / "dist", help="an empty folder (default: dist)")
    options.add_argument("--registry", default="", help="registry for images and chart, such as ghcr.io/somebody")
    options.add_argument("--home", default="", help="address of the project, for the chart")
    options.add_argument(
        "--arch",
        type=lambda text: [arch for arch in text.split(",") if arch],
        default=["amd64", "arm64"],
        help="processors of images (default: amd64,arm64); empty: no images",
    )
    options.add_argument("--base", default="", help="base image; empty: a Debian that is built here from its packages")
    options.add_argument("--build-option", action="append", default=[], help="another option of `buildah build`")
    options.add_argument("--push", action="store_true", help="also push images and chart to the registry")
    options.add_argument("--key", default="", help="GnuPG key that signs chart and checksums")
    return options


def project_version() -> str:
    """Return the version of the package. Exits if the chart has another one."""
    version = str(tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["version"])
    metadata = yaml.safe_load((CHART / "Chart.yaml").read_text())
    if {metadata["version"], metadata["appVersion"]} != {version}:
        raise SystemExit(
            f"the versions differ: package {version}, chart {metadata['version']}, app {metadata['appVersion']}"
        )
    return version


def write_bill_of_materials(path: Path) -> None:
    """Write the bill of materials: all Python packages in the images, in their locked versions."""
    package_options = ("--extra", "spark", "--extra", "tracing", "--extra", "airflow", "--group", "postgres")
    options = ("--quiet", "--frozen", "--no-dev", *package_options, "--output-file", str(path))
    run("uv", "export", "--format", "cyclonedx1.5", *options, cwd=PROJECT)


def build_image(kind: str, version: str, output: Path, arguments: argparse.Namespace) -> str:
    """Build an image for all processors as an OCI archive, and return its digest."""
    name = (
        f"{arguments.registry}/rescale-{kind}:{version}"
        if arguments.registry
        else f"localhost/rescale-{kind}:{version}"
    )
    subprocess.run(["buildah", "rmi", "--force", name], capture_output=True, check=False)
    for arch in arguments.arch:
        options = [
            "--arch",
            arch,
            "--manifest",
            name,
            "--build-arg",
            f"BASE_IMAGE={arguments.base or base_image(arch)}",
        ]
        dockerfile = PROJECT / "charts" / "images" / kind / "Dockerfile"
        run("buildah", "build", *options, *arguments.build_option, "--file", str(dockerfile), str(PROJECT))
    archive = output / f"rescale-{kind}-{version}.oci.tar"
    digest_file = output / "digest"
    push = ("buildah", "manifest", "push", "--all", "--digestfile", str(digest_file), name)
    run(*push, f"oci-archive:{archive}:{version}")
    if arguments.push:
        run(*push, f"docker://{name}")
    digest = digest_file.read_text().strip()
    digest_file.unlink()
    return digest


def base_image(arch: str) -> str:
    """Return the name of an image of Debian with Python for a processor, and build it unless it exists."""
    name = f"localhost/rescale-base:{DEBIAN_RELEASE}-{arch}"
    if subprocess.run(["buildah", "inspect", "--type", "image", name], capture_output=True, check=False).returncode:
        with tempfile.TemporaryDirectory() as folder:
            root = f"{folder}/root.tar"
            run(
                "mmdebstrap",
                "--variant=minbase",
                f"--architectures={arch}",
                f"--include={DEBIAN_PACKAGES}",
                DEBIAN_RELEASE,
                root,
            )
            container = run("buildah", "from", "--arch", arch, "scratch")
            run("buildah", "add", container, root, "/")
            run("buildah", "commit", "--rm", container, name)
    return name


def package_chart(version: str, output: Path, digests: DigestByKind, arguments: argparse.Namespace) -> Path:
    """Package the chart with its home and the images of this release; return the file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(CHART, Path(folder, "rescale")))
        metadata = yaml.safe_load((copy / "Chart.yaml").read_text())
        if arguments.home:
            metadata |= {"home": arguments.home, "sources": [arguments.home]}
        values = (copy / "values.yaml").read_text()
        images = []
        for kind in IMAGE_KINDS:
            repository = f"{arguments.registry}/rescale-{kind}" if arguments.registry else f"rescale-{kind}"
            reference = f"{repository}@{digests[kind]}" if kind in digests else f"{repository}:{version}"
            platforms = [f"linux/{arch}" for arch in arguments.arch or ("amd64", "arm64")]
            images.append({"name": kind, "image": reference, "platforms": platforms})
            values = values.replace(f"    repository: rescale-{kind}\n", f"    repository: {repository}\n")
            start = values.index(f"    repository: {repository}\n")
            pinned_values = values[start:].replace('    digest: ""\n', f'    digest: "{digests.get(kind, "")}"\n', 1)
            values = values[:start] + pinned_values
        metadata["annotations"]["artifacthub.io/images"] = yaml.safe_dump(images, sort_keys=False)
        (copy / "values.yaml").write_text(values)
        (copy / "Chart.yaml").write_text(yaml.safe_dump(metadata, sort_keys=False, width=1000))
        signing_options = []
        if arguments.key:
            keyring = Path(folder, "keyring")
            keyring.touch(0o600)
            keyring.write_bytes(run_gpg("--export-secret-keys", arguments.key))
            signing_options = ["--sign", "--key", arguments.key, "--keyring", str(keyring)]
        run("helm", "package", *signing_options, "--destination", str(output), str(copy))
    return output / f"rescale-{version}.tgz"


def write_checksums(output: Path, key: str) -> None:
    """Write `SHA256SUMS` of all files, for `sha256sum --check`; with a key, also write its signature."""
    sums_file = output / "SHA256SUMS"
    lines = []
    for path in sorted(output.iterdir()):
        with path.open("rb") as content:
            lines.append(f"{hashlib.file_digest(content, 'sha256').hexdigest()}  {path.name}\n")
    sums_file.write_text("".join(lines))
    if key:
        run_gpg("--armor", "--detach-sign", "--local-user", key, "--output", f"{sums_file}.asc", str(sums_file))


def run_gpg(*arguments: str) -> bytes:
    """Run GnuPG, and return its output."""
    return subprocess.run(["gpg", "--batch", "--yes", *arguments], stdout=subprocess.PIPE, check=True).stdout


def run(*command: str, cwd: Path | None = None) -> str:
    """Print and run a command, and return its output. Exits if the command fails."""
    print(f"$ {' '.join(command).replace(str(PROJECT), '.')}", flush=True)
    environment = {"BUILDAH_ISOLATION": "chroot", **os.environ}
    process = subprocess.run(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with exit code {process.returncode}")
    return process.stdout.strip()


if __name__ == "__main__":
    main()
