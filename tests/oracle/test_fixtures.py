"""Flink restores the committed snapshots with the state in `expected.json`, also at another parallelism."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fixtures.table import FIXTURES as TABLE
from oracle.harness import Flink, Job
from support.slow import slow, slow_but

FIXTURES = Path(__file__).parent.parent / "fixtures"
QUICK_FIXTURES = ("1.20-canonical-rocksdb", "2-rocksdb-native", "2-heap-native")


def restorable_fixtures() -> list[Any]:
    """Return each fixture that can be restored from its folder, and whose content can be computed."""
    folders_and_documents = []
    for path in sorted(FIXTURES.glob("*/expected.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["directory_prefix"] is None and document["job"]["scenario"] != "jam":
            folders_and_documents.append((path.parent, document))
    return slow_but(
        lambda snapshot_and_document: snapshot_and_document[0].name in QUICK_FIXTURES, folders_and_documents
    )


@pytest.mark.parametrize("fixture", restorable_fixtures(), ids=lambda fixture: fixture[0].name)
def test_flink_restores_committed_snapshot_at_another_parallelism(
    request: pytest.FixtureRequest, fixture: tuple[Path, dict[str, Any]]
) -> None:
    folder, document = fixture
    flink_fixture = "flink_1_20" if document["flink"].startswith("1.") else "flink_2"
    flink: Flink = request.getfixturevalue(flink_fixture)
    job = Job(**document["job"])
    # Flink does not restore timers from the heap if it keeps timers in RocksDB.
    plain_job = job.with_(configuration={name: value for name, value in job.configuration.items() if "timer" in name})
    parallelism = job.parallelism if "partially" in job.parameters else job.parallelism + 1
    verdict = flink.restore(folder / document["snapshot"], job, plain_job.with_(parallelism=parallelism))
    assert verdict.ok, verdict


@pytest.mark.parametrize("name", ["1.15.4-clicks", *map(slow, ("1.17.2-clicks", "1.20-clicks", "2.0.1-clicks"))])
def test_flink_2_restores_snapshots_of_older_releases(flink_2: Flink, name: str) -> None:
    document = json.loads((FIXTURES / name / "expected.json").read_text(encoding="utf-8"))
    job = Job(**document["job"])
    verdict = flink_2.restore(FIXTURES / name / "snapshot", job, job.with_(parallelism=3, backend="rocksdb"))
    assert verdict.ok, verdict


def test_committed_snapshots_are_those_of_the_table() -> None:
    document_by_name = {path.parent.name: json.loads(path.read_text()) for path in FIXTURES.glob("*/expected.json")}
    assert set(document_by_name) == {fixture.name for fixture in TABLE}
    for fixture in TABLE:
        document = document_by_name[fixture.name]
        assert Job(**document["job"]) == fixture.job, fixture.name
        assert (document["flink"], document["kinds"]) == (fixture.version, list(fixture.kinds)), fixture.name
