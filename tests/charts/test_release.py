"""Release: a wheel, a chart that names its images, further files, checksums and signatures."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from support.helm import CHARTS, helm
from support.needs import need, skip_for_lack

PROJECT = CHARTS.parent
SIGNER = "Nobody <nobody@example.org>"


@pytest.fixture(scope="module")
def gnupg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Provide the home of a GnuPG with a new key without a passphrase, and end the agent that GnuPG has started."""
    need("gpg", "releases are signed with it")
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    arguments = ["--batch", "--passphrase", "", "--quick-generate-key", SIGNER, "rsa2048", "sign", "never"]
    subprocess.run(["gpg", "--homedir", str(home), *arguments], check=True, capture_output=True)
    yield home
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=True)


@pytest.fixture(scope="module")
def released(gnupg: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    for program in ("uv", "helm"):
        need(program, "wheel and chart are packaged")
    into = tmp_path_factory.mktemp("release")
    arguments = [
        "--into",
        str(into),
        "--arch",
        "",
        "--registry",
        "registry.example/rescale",
        "--home",
        "https://example.org",
    ]
    process = release(*arguments, "--key", SIGNER, environment={"GNUPGHOME": str(gnupg)})
    if "build-system.requires" in process.stderr:
        skip_for_lack("setuptools is not to be had: uv builds the wheel with it (let this machine reach PyPI)")
    assert process.returncode == 0, process.stdout + process.stderr
    return into


def release(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHARTS / "release.py"), *arguments]
    variables = {**os.environ, **(environment or {})}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_release_has_all_files_and_their_checksums(released: Path) -> None:
    names = {file.name for file in released.iterdir()}
    assert names == {
        *(
            "flink_rescale-0.1.0-py3-none-any.whl",
            "flink_rescale-0.1.0.tar.gz",
            "rescale-0.1.0.tgz",
            "rescale-0.1.0.tgz.prov",
        ),
        *("flink-rescale-0.1.0.cdx.json", "SHA256SUMS", "SHA256SUMS.asc"),
    }
    sums = dict(reversed(line.split("  ")) for line in (released / "SHA256SUMS").read_text().splitlines())
    assert sums == {
        name: hashlib.sha256((released / name).read_bytes()).hexdigest()
        for name in names - {"SHA256SUMS", "SHA256SUMS.asc"}
    }


def test_checksums_and_chart_are_signed(released: Path, gnupg: Path) -> None:
    def verify(file: str) -> int:
        command = ["gpg", "--homedir", str(gnupg), "--verify", str(released / "SHA256SUMS.asc"), file]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert verify(str(released / "SHA256SUMS")) == 0
    assert verify(str(released / "rescale-0.1.0.tgz")) != 0
    ring = gnupg / "public"
    ring.write_bytes(
        subprocess.run(["gpg", "--homedir", str(gnupg), "--export"], capture_output=True, check=True).stdout
    )
    process = helm("verify", str(released / "rescale-0.1.0.tgz"), "--keyring", str(ring))
    assert process.returncode == 0, process.stderr


def test_chart_names_its_home_and_its_images(released: Path) -> None:
    package = str(released / "rescale-0.1.0.tgz")
    described = yaml.safe_load(helm("show", "chart", package).stdout)
    assert described["home"] == "https://example.org"
    assert described["sources"] == ["https://example.org"]
    assert described["icon"].startswith("data:image/svg+xml;base64,")
    assert described["maintainers"]
    images = yaml.safe_load(described["annotations"]["artifacthub.io/images"])
    assert [image["image"] for image in images] == [
        "registry.example/rescale/rescale-spark:0.1.0",
        "registry.example/rescale/rescale-airflow:0.1.0",
    ]
    values = yaml.safe_load(helm("show", "values", package).stdout)
    assert values["image"]["spark"]["repository"] == "registry.example/rescale/rescale-spark"
    assert values["image"]["airflow"]["repository"] == "registry.example/rescale/rescale-airflow"
    assert "gotmpl" not in subprocess.run(["tar", "tzf", package], capture_output=True, text=True, check=True).stdout
    assert helm("lint", "--strict", package, "--kube-version", "1.34.0").returncode == 0


def test_bill_of_materials_lists_the_locked_packages_of_the_images(released: Path) -> None:
    bill = json.loads((released / "flink-rescale-0.1.0.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    components = {component["name"]: component["version"] for component in bill["components"] if "version" in component}
    locked = {
        package["name"]: package["version"] for package in tomllib.loads((PROJECT / "uv.lock").read_text())["package"]
    }
    assert components.items() <= locked.items()
    assert {"pyspark", "apache-airflow", "boto3", "psycopg2-binary"} <= components.keys()
    assert not {"pytest", "moto"} & components.keys()


def test_wheel_has_the_dags(released: Path) -> None:
    with ZipFile(released / "flink_rescale-0.1.0-py3-none-any.whl") as wheel:
        for file in ("rescale_savepoint.py", ".airflowignore", "examples/scale_out.py"):
            assert any(name.endswith(f"share/rescale/dags/{file}") for name in wheel.namelist()), file


def test_wheel_source_and_chart_have_the_licence(released: Path) -> None:
    text = (PROJECT / "LICENSE").read_bytes()
    with ZipFile(released / "flink_rescale-0.1.0-py3-none-any.whl") as wheel:
        assert wheel.read("flink_rescale-0.1.0.dist-info/licenses/LICENSE") == text
    for package, name in (
        ("flink_rescale-0.1.0.tar.gz", "flink_rescale-0.1.0/LICENSE"),
        ("rescale-0.1.0.tgz", "rescale/LICENSE"),
    ):
        with tarfile.open(released / package) as packed:
            member = packed.extractfile(name)
            assert member is not None
            assert member.read() == text


def test_release_into_a_folder_with_files_is_refused(released: Path) -> None:
    process = release("--into", str(released), "--arch", "")
    assert process.returncode != 0
    assert "is not empty: name another folder" in process.stderr


def test_images_are_pinned_by_their_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need("helm", "charts are packaged")
    monkeypatch.syspath_prepend(CHARTS)
    import release as script

    digests = {"spark": "sha256:" + "a" * 64, "airflow": "sha256:" + "b" * 64}
    arguments = script.parser().parse_args(["--registry", "registry.example"])
    package = str(script.package_chart("0.1.0", tmp_path, digests, arguments))
    values = yaml.safe_load(helm("show", "values", package).stdout)["image"]
    assert {kind: values[kind]["digest"] for kind in digests} == digests
    annotations = yaml.safe_load(helm("show", "chart", package).stdout)["annotations"]
    assert yaml.safe_load(annotations["artifacthub.io/images"])[0] == {
        "name": "spark",
        "image": f"registry.example/rescale-spark@{digests['spark']}",
        "platforms": ["linux/amd64", "linux/arm64"],
    }
