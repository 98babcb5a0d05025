"""A source and a target in two stores that have different keys: versitygw, which refuses foreign keys, and moto."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rescale.runstate.step import Step
from rescale.storage.sides import StoreSide
from support.checkpoints import checkpoints_in
from support.s3 import S3Server
from support.slow import slow
from support.two_stores import BUCKET, SOURCE, TARGET, TwoStores, two_stores

PROFILES = ("--source-profile", SOURCE, "--target-profile", TARGET)
SOURCE_URI = f"s3://{BUCKET}/savepoints/first"
TARGET_URI = f"s3://{BUCKET}/savepoints/rescaled"


@pytest.fixture(params=[False, slow(True)], ids=["to moto", "from moto"])
def stores(request: pytest.FixtureRequest, s3: S3Server, tmp_path: Path) -> Iterator[TwoStores]:
    with two_stores(s3, tmp_path, from_moto=request.param) as opened_stores:
        yield opened_stores


def rescale(stores: TwoStores, *arguments: str, **variables: str) -> tuple[int, Any, str]:
    """Run a command with access by profiles, or by `variables`, and return exit code, document and standard error."""
    process = subprocess.run(
        [sys.executable, "-m", "rescale.cli.main", *arguments, "--output", "json"],
        env={**stores.environment, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.stdout, process.stderr
    assert stores.source.secret_key not in process.stdout + process.stderr
    return process.returncode, json.loads(process.stdout), process.stderr


@pytest.mark.parametrize(
    ("snapshot", "shape"),
    [
        ("2-clicks", ("--max-parallelism", "1000")),
        ("2-rocksdb-native", ("--parallelism", "3")),
        slow("2-finished", ("--parallelism", "3")),
        slow("2-rocksdb-native", ("--max-parallelism", "1000")),
        slow("2-rocksdb-native", ("--parallelism", "3", "--proof", "files")),
    ],
)
def test_run_moves_between_buckets_of_one_name_in_two_stores(
    snapshot: str, shape: tuple[str, ...], stores: TwoStores
) -> None:
    source = stores.put_source(snapshot, SOURCE_URI)
    before = stores.at_source().list(f"s3://{BUCKET}")
    code, document, stderr = rescale(
        stores, "run", source, "--target", TARGET_URI, "--master", "local[2]", *shape, *PROFILES
    )
    assert code == 0, (document, stderr)
    target_files = {entry.uri.removeprefix(TARGET_URI) for entry in stores.at_target().list(f"s3://{BUCKET}")}
    assert {"/_metadata", ".rescale/claim", ".rescale/certificate.json", ".rescale/report.html"} <= target_files
    assert any(name.startswith(".rescale/result-") for name in target_files)
    assert all(name.startswith(("/", ".rescale/")) for name in target_files), (
        "something of the source is in the other store"
    )
    assert stores.at_source().list(f"s3://{BUCKET}") == before
    for name in target_files:  # nothing that a run leaves has a secret in it
        data, _ = stores.at_target().read_all(TARGET_URI + name, 1 << 24)
        assert stores.source.secret_key.encode() not in data, name
    for command in (["validate", source, TARGET_URI, *PROFILES], ["diff", source, TARGET_URI, *PROFILES]):
        code, document, stderr = rescale(stores, *command, "--master", "local[2]")
        assert code == 0, (command, document, stderr)
    code, document, stderr = rescale(stores, "run", source, "--target", TARGET_URI, *shape, *PROFILES)
    assert (code, document["already_published"]) == (0, True), (document, stderr)


@pytest.mark.slow
@pytest.mark.parametrize("stores", [True], indirect=True)
def test_follower_writes_nothing_into_the_sources_store(stores: TwoStores, tmp_path: Path) -> None:
    """Files that the job may delete are copied to the target's store. Later copies stay inside that store."""
    job = checkpoints_in("2-rocksdb-incremental", SOURCE_URI, tmp_path / "scratch")
    before = stores.at_source().list(f"s3://{BUCKET}")
    command = ("follow", job.directory, "--target", TARGET_URI, "--max-parallelism", "1000", "--master", "local[2]")
    for options in (["--max-rounds", "0"], ["--finish", "--yes"]):
        code, document, _ = rescale(stores, *command, *PROFILES, *options)
        assert code == 0, document
    assert stores.at_target().stat(f"{TARGET_URI}/_metadata") is not None
    assert stores.at_source().list(f"s3://{BUCKET}") == before


@pytest.mark.slow
@pytest.mark.parametrize("stores", [True], indirect=True)
def test_published_rounds_are_on_the_targets_side(stores: TwoStores, tmp_path: Path) -> None:
    job = checkpoints_in("2-rocksdb-incremental", SOURCE_URI, tmp_path / "scratch")
    command = ("follow", job.directory, "--target", TARGET_URI, "--max-parallelism", "1000", "--master", "local[2]")
    code, document, _ = rescale(stores, *command, *PROFILES, "--max-rounds", "0")
    assert code == 0, document
    job.copy_newest(job.number + 1)
    before = stores.at_source().list(f"s3://{BUCKET}")
    code, document, _ = rescale(stores, *command, *PROFILES, "--max-rounds", "1", "--publish-every", "1")
    assert code == 0, document
    assert stores.at_target().stat(f"{TARGET_URI}-{job.number}/_metadata") is not None
    assert stores.at_source().list(f"s3://{BUCKET}") == before


def test_commands_take_the_profile_of_each_side(stores: TwoStores, tmp_path: Path) -> None:
    source = stores.put_source("2-clicks", SOURCE_URI)
    page = str(tmp_path / "report.html")
    stores.declare_target(TARGET_URI)  # the doctor puts probes there
    commands = [
        ["inspect", source, *PROFILES[:2]],
        ["plan", source, "--target", TARGET_URI, "--parallelism", "3", *PROFILES],
        ["report", source, "-o", page, *PROFILES[:2]],
        ["doctor", "--source", source, "--target", TARGET_URI, *PROFILES],
        ["match", source, "--job", source, *PROFILES[:2]],
        ["discard", TARGET_URI, *PROFILES[2:]],
    ]
    for command in commands:
        code, document, stderr = rescale(stores, *command)
        assert code == 0, (command, document, stderr)
    assert not stores.at_target().list(f"s3://{BUCKET}")


_CLAIM = """
import sys
from rescale.options.profiles import use_targets
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
source, target = sys.argv[1:]
use_targets([target])
plan = prepare(make_request(source, target, ["3"])).plan
claim(plan, accept_unconditional=False, run_identity={"process": "test"})
print(places_of(plan).plan)
"""


def test_steps_take_the_profiles_from_their_options(stores: TwoStores) -> None:
    """The environment of a step names no profile, as on another machine.

    The step takes the profiles from its options, and its target from the stored plan.
    """
    source = stores.put_source("2-clicks", SOURCE_URI)
    profile_variables = {
        StoreSide.SOURCE.prefix + "AWS_PROFILE": SOURCE,
        StoreSide.TARGET.prefix + "AWS_PROFILE": TARGET,
    }
    plan = python_output(["-c", _CLAIM, source, TARGET_URI], {**stores.environment, **profile_variables}).strip()
    for step in (Step.RESHUFFLE, Step.REDISTRIBUTE, Step.VALIDATE):
        result = f"{TARGET_URI}.rescale/result-{step}.json"
        python_output(
            ["-m", step.value, "--plan", plan, "--result", result, "--master", "local[2]", *PROFILES],
            stores.environment,
        )
        data, _ = stores.at_target().read_all(result, 1 << 24)
        assert json.loads(data)["status"] == "done"
    assert stores.at_target().stat(f"{TARGET_URI}.rescale/certificate.json") is not None


def python_output(arguments: list[str], environment: dict[str, str]) -> str:
    """Return the output of a Python process, which must succeed."""
    process = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_variables_with_a_prefix_configure_the_source_alone(stores: TwoStores) -> None:
    """Pods get these variables from two Secrets."""
    source = stores.put_source("2-clicks", SOURCE_URI)
    command = ("run", source, "--target", TARGET_URI, "--parallelism", "3")
    code, document, stderr = rescale(stores, *command, **stores.variables)
    assert code == 0, (document["what"], document["path"], stderr)


def test_unknown_profile_is_refused_with_the_profiles_there_are(stores: TwoStores) -> None:
    for profiles in ((*PROFILES[:3], "nowhere"), ("--source-profile", "nowhere", *PROFILES[2:])):
        code, error, _ = rescale(stores, "plan", SOURCE_URI, "--target", TARGET_URI, *profiles)
        assert (code, error["what"]) == (2, "there is no AWS profile 'nowhere'"), error
        assert str(stores.config) in error["path"]
        assert error["expected"] == f"one of the profiles {SOURCE}, {TARGET}"


@pytest.mark.parametrize("stores", [False], indirect=True)  # moto accepts every key
def test_refused_key_is_reported_with_the_store_and_its_profile(stores: TwoStores) -> None:
    stores.put_source("2-clicks", SOURCE_URI)
    stores.config.write_text(stores.config.read_text().replace(stores.source.environment["AWS_ACCESS_KEY_ID"], "other"))
    code, error, _ = rescale(stores, "plan", SOURCE_URI, "--target", TARGET_URI, "--parallelism", "3", *PROFILES)
    assert code == 2, error
    assert error["found"].endswith(f"the source's store (AWS profile {SOURCE}, endpoint {stores.source.endpoint})")
    assert error["advice"].startswith(f"check the keys of the AWS profile {SOURCE}"), error


@pytest.mark.parametrize("target", [SOURCE_URI, f"{SOURCE_URI}/inside", f"s3://{BUCKET}/savepoints"])
def test_target_named_like_the_source_is_refused(target: str, stores: TwoStores) -> None:
    stores.put_source("2-clicks", SOURCE_URI)
    code, error, _ = rescale(stores, "run", SOURCE_URI, "--target", target, "--parallelism", "3", *PROFILES)
    assert (code, error["advice"]) == (2, "give the target another name"), error


@pytest.mark.parametrize("command", ["validate", "diff"])
def test_comparison_with_a_target_named_like_the_source_is_refused(command: str, stores: TwoStores) -> None:
    stores.put_source("2-clicks", SOURCE_URI)
    code, error, _ = rescale(stores, command, SOURCE_URI, f"{SOURCE_URI}/_metadata", *PROFILES)
    assert (code, error["advice"]) == (2, "give the target another name"), error


def test_result_cannot_refer_to_another_store(stores: TwoStores) -> None:
    source = stores.put_source("2-rocksdb-native", SOURCE_URI)
    command = ("plan", source, "--target", TARGET_URI, "--parallelism", "3", "--files", "refer")
    code, error, _ = rescale(stores, *command, *PROFILES)
    assert (code, error["what"]) == (2, "a result in S3 cannot refer to files in another store"), error


def test_profile_for_a_local_path_is_refused(stores: TwoStores, tmp_path: Path) -> None:
    code, error, _ = rescale(stores, "inspect", str(tmp_path), *PROFILES[:2])
    assert (code, error["what"]) == (2, "this place is not in S3, and an AWS profile applies only to S3"), error
