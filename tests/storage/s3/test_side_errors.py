"""An error of S3 names the store and the settings of its side, where source and target are in two stores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, NoCredentialsError

from rescale.airflow.forms.form_advice import form_wording
from rescale.storage.s3.s3_errors import translated_errors
from rescale.storage.sides import StoreSide, configure_side, declare_targets
from rescale.text.advice import Advice
from rescale.text.errors import RequestError

SOURCE, TARGET = "s3://flink/savepoint", "s3://flink/new"
ACCESS_DENIED = ClientError(
    {"Error": {"Code": "AccessDenied", "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": 403}},  # type: ignore[typeddict-item]
    "GetObject",
)


@pytest.fixture(autouse=True)
def _restored_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if "AWS_" not in name}
    monkeypatch.setattr(os, "environ", environment)
    (tmp_path / "config").write_text("[profile cloud]\nendpoint_url = https://cloud.example\n")
    os.environ.update(AWS_CONFIG_FILE=str(tmp_path / "config"), AWS_ENDPOINT_URL="https://plain.example")
    declare_targets([TARGET])


def error_at(uri: str, cause: Exception = ACCESS_DENIED) -> RequestError:
    with pytest.raises(RequestError) as caught, translated_errors(uri):
        raise cause
    return caught.value


def test_error_of_one_store_names_no_side() -> None:
    error = error_at(SOURCE)
    assert error.found == "AccessDenied"
    assert "check AWS_ACCESS_KEY_ID" in str(error.advice)


def test_error_names_the_variables_of_its_side() -> None:
    configure_side(StoreSide.SOURCE, {"AWS_ENDPOINT_URL": "https://premises.example"})
    source, target = error_at(SOURCE), error_at(f"{TARGET}.rescale/claim", NoCredentialsError())
    assert source.found == "AccessDenied, from the source's store (endpoint https://premises.example)"
    assert "check RESCALE_SOURCE_AWS_ACCESS_KEY_ID, RESCALE_SOURCE_AWS_SECRET_ACCESS_KEY" in str(source.advice)
    assert target.found == "the target's store (endpoint https://plain.example)"
    assert str(target.advice).startswith("check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY")


def test_error_names_the_profile_of_its_side() -> None:
    configure_side(StoreSide.TARGET, {"AWS_PROFILE": "cloud"})
    error = error_at(TARGET)
    assert error.found == "AccessDenied, from the target's store (AWS profile cloud, endpoint https://cloud.example)"
    assert str(error.advice).startswith("check the keys of the AWS profile cloud, and the bucket's policy")
    assert "RESCALE_TARGET_AWS_REQUEST_PAYER=requester" in str(error.advice)


@pytest.mark.parametrize(("uri", "field"), [(SOURCE, '"Connection of the source"'), (TARGET, '"Connection"')])
def test_form_names_the_connection_of_the_side(uri: str, field: str) -> None:
    configure_side(StoreSide.SOURCE, {"AWS_ENDPOINT_URL": "https://premises.example"})
    advice = error_at(uri).advice
    assert isinstance(advice, Advice)
    assert f"fill in {field} with the id" in advice.worded(form_wording)
