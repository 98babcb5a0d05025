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
def gnupg_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Provide the home of a GnuPG with a new key without a passphrase, and end the agent that GnuPG has started."""
    need("gpg", "releases are signed with it")
    home = tmp_path_factory.mktemp("gnupg")
    home.chmod(0o700)
    arguments = ["--batch", "--passphrase", "", "--quick-generate-key", SIGNER, "rsa2048", "sign", "never"]
    subprocess.run(["gpg", "--homedir", str(home), *arguments], check=True, capture_output=True)
    yield home
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=True)


@pytest.fixture(scope="module")
def release_dir(gnupg_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    for program in ("uv", "helm"):
        need(program, "wheel and chart are packaged")
    directory = tmp_path_factory.mktemp("release")
    arguments = [
        "--into",
        str(directory),
        "--arch",
        "",
        "--registry",
        "registry.example/rescale",
        "--home",
        "https://example.org",
    ]
    process = release(*arguments, "--key", SIGNER, environment={"GNUPGHOME": str(gnupg_home)})
    if "build-system.requires" in process.stderr:
        skip_for_lack("setuptools is not to be had: uv builds the wheel with it (let this machine reach PyPI)")
    assert process.returncode == 0, process.stdout + process.stderr
    return directory


def release(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHARTS / "release.py"), *arguments]
    variables = {**os.environ, **(environment or {})}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_release_has_all_files_and_their_checksums(release_dir: Path) -> None:
    names = {file.name for file in release_dir.iterdir()}
    assert names == {
        *(
            "flink_rescale-0.1.0-py3-none-any.whl",
            "flink_rescale-0.1.0.tar.gz",
            "rescale-0.1.0.tgz",
            "rescale-0.1.0.tgz.prov",
        ),
        *("flink-rescale-0.1.0.cdx.json", "SHA256SUMS", "SHA256SUMS.asc"),
    }
    sha256_by_name = dict(reversed(line.split("  ")) for line in (release_dir / "SHA256SUMS").read_text().splitlines())
    assert sha256_by_name == {
        name: hashlib.sha256((release_dir / name).read_bytes()).hexdigest()
        for name in names - {"SHA256SUMS", "SHA256SUMS.asc"}
    }


def test_checksums_and_chart_are_signed(release_dir: Path, gnupg_home: Path) -> None:
    def verify(file: str) -> int:
        command = ["gpg", "--homedir", str(gnupg_home), "--verify", str(release_dir / "SHA256SUMS.asc"), file]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert verify(str(release_dir / "SHA256SUMS")) == 0
    assert verify(str(release_dir / "rescale-0.1.0.tgz")) != 0
    keyring = gnupg_home / "public"
    keyring.write_bytes(
        subprocess.run(["gpg", "--homedir", str(gnupg_home), "--export"], capture_output=True, check=True).stdout
    )
    process = helm("verify", str(release_dir / "rescale-0.1.0.tgz"), "--keyring", str(keyring))
    assert process.returncode == 0, process.stderr


def test_chart_names_its_home_and_its_images(release_dir: Path) -> None:
    package = str(release_dir / "rescale-0.1.0.tgz")
    chart = yaml.safe_load(helm("show", "chart", package).stdout)
    assert chart["home"] == "https://example.org"
    assert chart["sources"] == ["https://example.org"]
    assert chart["icon"].startswith("data:image/svg+xml;base64,")
    assert chart["maintainers"]
    images = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    assert [image["image"] for image in images] == [
        "registry.example/rescale/rescale-spark:0.1.0",
        "registry.example/rescale/rescale-airflow:0.1.0",
    ]
    values = yaml.safe_load(helm("show", "values", package).stdout)
    assert values["image"]["spark"]["repository"] == "registry.example/rescale/rescale-spark"
    assert values["image"]["airflow"]["repository"] == "registry.example/rescale/rescale-airflow"
    assert "gotmpl" not in subprocess.run(["tar", "tzf", package], capture_output=True, text=True, check=True).stdout
    assert helm("lint", "--strict", package, "--kube-version", "1.34.0").returncode == 0


def test_bill_of_materials_lists_the_locked_packages_of_the_images(release_dir: Path) -> None:
    bill = json.loads((release_dir / "flink-rescale-0.1.0.cdx.json").read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    listed_versions = {
        component["name"]: component["version"] for component in bill["components"] if "version" in component
    }
    locked_versions = {
        package["name"]: package["version"] for package in tomllib.loads((PROJECT / "uv.lock").read_text())["package"]
    }
    assert listed_versions.items() <= locked_versions.items()
    assert {"pyspark", "apache-airflow", "boto3", "psycopg2-binary"} <= listed_versions.keys()
    assert not {"pytest", "moto"} & listed_versions.keys()


def test_wheel_has_the_dags(release_dir: Path) -> None:
    with ZipFile(release_dir / "flink_rescale-0.1.0-py3-none-any.whl") as wheel:
        for file in ("rescale_savepoint.py", ".airflowignore", "examples/scale_out.py"):
            assert any(name.endswith(f"share/rescale/dags/{file}") for name in wheel.namelist()), file


def test_wheel_source_archive_and_chart_have_the_licence(release_dir: Path) -> None:
    licence = (PROJECT / "LICENSE").read_bytes()
    with ZipFile(release_dir / "flink_rescale-0.1.0-py3-none-any.whl") as wheel:
        assert wheel.read("flink_rescale-0.1.0.dist-info/licenses/LICENSE") == licence
    for package, name in (
        ("flink_rescale-0.1.0.tar.gz", "flink_rescale-0.1.0/LICENSE"),
        ("rescale-0.1.0.tgz", "rescale/LICENSE"),
    ):
        with tarfile.open(release_dir / package) as archive:
            member = archive.extractfile(name)
            assert member is not None
            assert member.read() == licence


def test_release_into_a_folder_with_files_is_refused(release_dir: Path) -> None:
    process = release("--into", str(release_dir), "--arch", "")
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
