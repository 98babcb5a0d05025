"""Secrets that open a bucket are only in the environment: not in files, output or command lines.

Tests plant secrets, and search for them in different places:

* here: in command lines, and in what the command line prints and leaves (plan, receipts, results with their metrics,
  certificate, report, scratch)
* `execution/rekeying/test_shuffle.py`: in Spark's event log
* `whole_airflow/test_runs.py`: in Airflow's database (XComs, rendered fields), its logs and the environment of steps
* `whole_airflow/test_lost_database.py`: in what Airflow's components say while its database is stopped
* `charts`: in manifests
* `text/test_names.py`, `storage/s3/test_s3_errors.py`, `airflow/flink/test_access.py`: in errors that quote an address
  or a header
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JError

from rescale.cli.main import main
from rescale.execution.tasks.spark import session
from rescale.storage.store import open_store
from rescale.text.errors import StoreError
from support.commands import in_a_process
from support.needs import need
from support.s3 import S3Server, closed_port, put_files
from support.snapshots import directory
from support.watching import Watch

KEY_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture
def aws_keys() -> dict[str, str]:
    return {name: f"planted{secrets.token_hex(12)}" for name in KEY_VARIABLES}


@pytest.mark.slow
def test_run_leaves_no_secret(aws_keys: dict[str, str], s3: S3Server, tmp_path: Path) -> None:
    bucket = s3.new_bucket("secrets")
    bucket_uri, store = f"s3://{bucket}", open_store(f"s3://{bucket}")
    endpoint_with_password = s3.endpoint.replace("://", f"://me:{aws_keys['AWS_SECRET_ACCESS_KEY']}@")
    put_files(Path(directory("2-finished")), f"{bucket_uri}/source")
    arguments = [
        "run",
        f"{bucket_uri}/source",
        "--target",
        f"{bucket_uri}/target",
        "--parallelism",
        "3",
        "--output",
        "json",
    ]
    with Watch() as watch:
        variables = {**aws_keys, "AWS_ENDPOINT_URL": endpoint_with_password, "TMPDIR": str(tmp_path)}
        process = in_a_process(*arguments, **variables, **watch.environment)
    assert process.returncode == 0, process.stderr
    assert any("move_rounds" in line for line in watch.command_lines), "the command line of the step was not seen"
    object_uris = [entry.uri for entry in store.list(bucket_uri)]
    names = {uri.rpartition("/")[2] for uri in object_uris}
    assert {"claim", "certificate.json", "report.html", "result-validate_coverage.json"} <= names
    texts = [process.stdout, process.stderr, json.dumps(sorted(watch.command_lines)), *object_uris]
    texts += [store.read_all(uri, 1 << 24)[0].decode("latin-1") for uri in object_uris]
    texts += [path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    for name, secret in aws_keys.items():
        assert not any(secret in text for text in texts), name


def test_spark_properties_hold_no_secret(aws_keys: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's properties are in its UI, its event log and the environment of its executors."""
    need("java", "Spark runs on a JVM")
    properties: list[str] = []

    def capture_properties(conf: session.SparkConf) -> None:
        properties.append(conf.toDebugString())
        raise Py4JError("seen")

    for name, secret in aws_keys.items():
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{aws_keys['AWS_SECRET_ACCESS_KEY']}@127.0.0.1:1")
    monkeypatch.setattr(session, "SparkContext", capture_properties)
    with pytest.raises(StoreError), session.spark_context("x", "local[1]"):
        pass
    assert "spark.app.name=x" in properties[0]
    assert not any(secret in properties[0] for secret in aws_keys.values())


@pytest.fixture
def dead_port() -> Iterator[int]:
    """Return a port where nothing listens."""
    with closed_port() as port:
        yield port


def test_error_does_not_show_a_secret_in_an_address(
    aws_keys: dict[str, str], dead_port: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = aws_keys["AWS_SECRET_ACCESS_KEY"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{secret}@127.0.0.1:{dead_port}")
    monkeypatch.setattr("rescale.storage.s3.s3_client.ATTEMPTS", 1)
    uris = (
        "s3://bucket/save",
        f"s3://KEY:{secret}@bucket/save",
        f"https://bucket.store/save?X-Amz-Signature={secret}",
    )
    for uri in uris:
        for output_format in ("text", "json"):
            assert main(["inspect", uri, "--output", output_format]) in (1, 2)
            output = "".join(capsys.readouterr())
            assert "error" in output
            assert secret not in output
