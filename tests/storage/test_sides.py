"""Which side a location is on, and what configures the store of a side."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from rescale.storage.s3.s3_client import client_for
from rescale.storage.sides import (
    TARGETS_VARIABLE,
    StoreSide,
    aws_variables,
    configure_side,
    declare_targets,
    is_one_store,
    process_environment,
    side_of,
    variables_of,
)

_BASE = {
    "HOME": "/home",
    "AWS_ACCESS_KEY_ID": "plain",
    "AWS_SECRET_ACCESS_KEY": "plain",
    "AWS_ENDPOINT_URL": "http://plain",
    "AWS_REGION": "plain",
    "AWS_CONFIG_FILE": "/config",
    "AWS_CA_BUNDLE": "/ca",
}


@pytest.fixture(autouse=True)
def _restored_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", os.environ.copy())


def test_locations_in_or_beside_a_declared_target_are_on_its_side() -> None:
    assert side_of("s3://b/anything") is StoreSide.TARGET, "without a declaration, there is one side"
    declare_targets(["s3://b/new", "s3://b/old.rescale/rounds/round-1", "s3://c/x.rescale/plan-1.json"])
    target_uris = [
        "s3://b/new",
        "s3://b/new/f",
        "s3://b/new.rescale/claim",
        "s3://b/old/f",
        "s3://b/old.rescale/pins/p",
    ]
    assert {side_of(uri) for uri in [*target_uris, "s3://c/x/f"]} == {StoreSide.TARGET}
    source_uris = ["s3://b/newer", "s3://b/new.rescaled/f", "s3://b", "s3://c/old/f", "s3://c/x.rescales"]
    assert {side_of(uri) for uri in source_uris} == {StoreSide.SOURCE}
    declare_targets([])
    assert side_of("s3://b/new") is StoreSide.SOURCE


def test_name_of_a_bucket_or_directory_may_end_like_that_of_documents() -> None:
    declare_targets(["s3://t.rescale/new", "s3://t.rescale/rounds/new", "s3://b/t.rescale/new.rescale/plan-1.json"])
    target_uris = ["s3://t.rescale/new/f", "s3://t.rescale/rounds/new/f", "s3://b/t.rescale/new.rescale/claim"]
    assert {side_of(uri) for uri in target_uris} == {StoreSide.TARGET}
    source_uris = ["s3://t.rescale/old", "s3://t.rescale/rounds/old", "s3://b/t.rescale/old", "s3://b/t/f"]
    assert {side_of(uri) for uri in source_uris} == {StoreSide.SOURCE}


def test_stores_are_two_only_if_they_are_configured_differently() -> None:
    os.environ.update(_BASE)
    declare_targets(["s3://b/new"])
    uris = ("s3://b/new/f", "s3://b/old/f")
    assert is_one_store(*uris)
    configure_side(StoreSide.SOURCE, {"AWS_PROFILE": "p"})
    assert not is_one_store(*uris)
    assert is_one_store("s3://b/old/f", "s3://c/f")
    assert is_one_store("/a", "/b")
    assert not is_one_store("/a", "s3://b/old/f")
    configure_side(StoreSide.TARGET, {"AWS_PROFILE": "p"})
    assert is_one_store(*uris)


@pytest.mark.parametrize(
    ("own_variables", "expected"),
    [
        ({}, _BASE),
        ({"AWS_PROFILE": "p"}, {"AWS_PROFILE": "p", "AWS_ACCESS_KEY_ID": "plain", "AWS_SECRET_ACCESS_KEY": "plain"}),
        ({"AWS_ACCESS_KEY_ID": "k"}, {"AWS_ACCESS_KEY_ID": "k", "AWS_CONFIG_FILE": None}),
        ({"AWS_REGION": "r"}, {"AWS_REGION": "r", "AWS_ACCESS_KEY_ID": "plain", "AWS_SECRET_ACCESS_KEY": "plain"}),
        ({"AWS_ACCESS_KEY_ID": "k", "AWS_CA_BUNDLE": ""}, {"AWS_ACCESS_KEY_ID": "k", "AWS_CONFIG_FILE": None}),
    ],
    ids=["nothing", "profile", "keys", "region", "no bundle"],
)
def test_side_takes_only_shared_variables_that_go_with_its_own(
    own_variables: dict[str, str], expected: dict[str, str | None]
) -> None:
    shared_variables = {"HOME": "/home", "AWS_CONFIG_FILE": "/config"} | (
        {} if "AWS_CA_BUNDLE" in own_variables else {"AWS_CA_BUNDLE": "/ca"}
    )
    expected_variables = {name: value for name, value in {**shared_variables, **expected}.items() if value is not None}
    source_variables = {StoreSide.SOURCE.prefix + name: value for name, value in own_variables.items()}
    assert variables_of(StoreSide.SOURCE, {**_BASE, **source_variables}) == expected_variables
    assert variables_of(StoreSide.TARGET, {**_BASE, **source_variables}) == _BASE


def test_client_of_a_profile_has_its_keys_endpoint_region_and_addressing_style(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "[profile p]\nendpoint_url = http://store.example\nregion = eu-west-1\naws_access_key_id = k\n"
        "aws_secret_access_key = s\ns3 =\n  addressing_style = virtual\n"
    )
    os.environ.update({**_BASE, "AWS_CONFIG_FILE": str(tmp_path / "config")})
    os.environ.pop("AWS_CA_BUNDLE")
    configure_side(StoreSide.SOURCE, {"AWS_PROFILE": "p"})
    environment_before = dict(os.environ)
    source, target = client_for(StoreSide.SOURCE), client_for(StoreSide.TARGET)
    assert (source.meta.endpoint_url, source.meta.region_name) == ("http://store.example", "eu-west-1")
    assert source.meta.config.s3 == {"addressing_style": "virtual"}  # type: ignore[attr-defined]
    assert source._request_signer._credentials.access_key == "k"  # type: ignore[attr-defined]
    assert (target.meta.endpoint_url, target.meta.region_name) == ("http://plain", "plain")
    assert target._request_signer._credentials.access_key == "plain"  # type: ignore[attr-defined]
    assert dict(os.environ) == environment_before


def test_other_threads_never_see_the_variables_of_a_client_that_is_made() -> None:
    os.environ.update(_BASE)
    environments: list[dict[str, str]] = []
    with aws_variables({"AWS_ACCESS_KEY_ID": "other"}):
        reader = threading.Thread(target=lambda: environments.append(process_environment()))
        reader.start()
        reader.join(0.2)
        assert not environments
        assert "AWS_ENDPOINT_URL" not in os.environ
    reader.join()
    assert environments == [dict(os.environ)]
    assert environments[0]["AWS_ACCESS_KEY_ID"] == "plain"
    assert TARGETS_VARIABLE not in environments[0]
