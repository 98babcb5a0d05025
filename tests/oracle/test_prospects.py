"""State of Flink 1 is restored on the newest Flink 2, or refused, as Rescale predicts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from fixtures.table import TYPES
from oracle.harness import Flink, FlinkError, Job
from rescale.flink.operator_id import operator_id_of_uid
from rescale.flink.release_line import RELEASE_LINES, ReleaseLine
from rescale.flink.serializers.registry import FLINK_ROWS
from rescale.flink.serializers.release_rules import Restores, class_reasons
from rescale.snapshot.prospects import prospects
from rescale.snapshot.reading.opening import open_snapshot
from support.slow import slow
from support.snapshots import FIXTURES

NEWEST = RELEASE_LINES[-1]

KEPT_TYPES = ("POJO", "list", "map", "enum", "row", "either")
LOST_TYPES = (
    *("POJO with a list", "POJO with a set", "POJO with an ArrayList", "POJO with a date", "generic list"),
    *("UUID", "HashMap", "pair", "option of Scala", "enum of Scala", "sink"),
)
IS_RESTORED_BY_OPEN_TYPE = {"class of a text": True, "class of a double": False}
"""Types for which the bytes give no prediction, and whether they are really restored."""

IGNORE_UNCLAIMED_STATE = {
    "execution.savepoint.ignore-unclaimed-state": "true",
    "execution.state-recovery.ignore-unclaimed-state": "true",
}


def typed(*types: str) -> Job:
    parameters = {"seed": 7, **dict.fromkeys(types, 1)}
    return Job("typed", 2, parameters, max_parallelism=16, configuration=IGNORE_UNCLAIMED_STATE)


def operator_uids(types: Iterable[str]) -> tuple[tuple[str, str], ...]:
    return tuple(type_ if type_ == "sink" else f"of {type_}" for type_ in types)


def is_restored(flink: Flink, path: Path, job: Job) -> bool:
    try:
        return flink.restore(path, job, job).ok
    except FlinkError:
        return False


@pytest.mark.slow
def test_types_of_flink_1_are_restored_by_flink_2_as_predicted(
    flink_1_20: Flink, flink_2: Flink, tmp_path: Path
) -> None:
    all_types = (*KEPT_TYPES, *LOST_TYPES, *IS_RESTORED_BY_OPEN_TYPE)
    check_types(flink_2, flink_1_20.snapshot(typed(*all_types), tmp_path), all_types)


@pytest.mark.slow
def test_types_of_flink_1_18_are_restored_by_flink_2_as_predicted(flink_2: Flink) -> None:
    assert {*TYPES} & {*KEPT_TYPES}
    assert {*TYPES} & {*LOST_TYPES}
    assert {*TYPES} & {*IS_RESTORED_BY_OPEN_TYPE}
    check_types(flink_2, FIXTURES / "1.18.1-types" / "snapshot", TYPES)


def check_types(flink_2: Flink, path: Path, types: tuple[str, ...]) -> None:
    """Check that Flink 2 restores the types in a savepoint of Flink 1 as predicted."""
    kept, lost, unknown = (
        [type_ for type_ in types_of_kind if type_ in types]
        for types_of_kind in (KEPT_TYPES, LOST_TYPES, IS_RESTORED_BY_OPEN_TYPE)
    )
    uids = tuple((operator_id_of_uid(uid), uid) for uid in operator_uids(types))
    snapshot = open_snapshot(str(path), ids_and_labels=uids)
    restores_by_label = {prospect.label: prospect.restores for prospect in prospects(snapshot, NEWEST).operators}
    for answer, types_of_answer in ((Restores.YES, kept), (Restores.NO, lost), (Restores.UNKNOWN, unknown)):
        assert {name: restores_by_label[name] for name in operator_uids(types_of_answer)} == dict.fromkeys(
            operator_uids(types_of_answer), answer
        )
    assert is_restored(flink_2, path, typed(*kept))
    assert {type_: is_restored(flink_2, path, typed(type_)) for type_ in lost} == dict.fromkeys(lost, False)
    assert {type_: is_restored(flink_2, path, typed(type_)) for type_ in unknown} == {
        type_: IS_RESTORED_BY_OPEN_TYPE[type_] for type_ in unknown
    }


@pytest.mark.parametrize(
    "name",
    [slow(f"1.20-{name}") for name in ("raw", "heap-native", "sql", "source", "rocksdb-2to3", "finished")],
)
def test_jobs_of_flink_1_are_restored_by_flink_2_as_predicted(flink_2: Flink, name: str) -> None:
    document = json.loads((FIXTURES / name / "expected.json").read_text(encoding="utf-8"))
    path, job = FIXTURES / name / document["snapshot"], Job(**document["job"])
    predictions = prospects(open_snapshot(str(path)), NEWEST)
    assert all(prospect.restores != Restores.NO for prospect in predictions.operators)
    assert {prospect.restores for prospect in predictions.operators} == {Restores.YES} or name in (
        "1.20-raw",
        "1.20-source",
    )
    plain_job = job.with_(
        configuration={option: value for option, value in job.configuration.items() if "timer" in option}
    )
    assert is_restored(flink_2, path, plain_job)


@pytest.mark.parametrize(
    ("flink_fixture", "release"), [slow("flink_1_20", ReleaseLine(1, 20)), slow("flink_2", NEWEST)]
)
def test_classes_missing_in_a_release_are_as_predicted(
    request: pytest.FixtureRequest, flink_fixture: str, release: ReleaseLine
) -> None:
    flink: Flink = request.getfixturevalue(flink_fixture)
    class_names = [row.snapshot for row in FLINK_ROWS.values() if row.jar is None]
    missing_classes = set(flink.command("missing_classes", names=class_names))
    expected = {name for name in class_names if any(r.restores is Restores.NO for r in class_reasons(name, release))}
    assert missing_classes == expected
    assert missing_classes


@pytest.mark.slow
def test_flink_1_refuses_a_snapshot_of_flink_2_as_predicted(flink_1_20: Flink) -> None:
    document = json.loads((FIXTURES / "2-clicks" / "expected.json").read_text(encoding="utf-8"))
    job, path = Job(**document["job"]), FIXTURES / "2-clicks" / "snapshot"
    predictions = prospects(open_snapshot(str(path)), ReleaseLine(1, 20))
    assert {prospect.restores for prospect in predictions.operators if prospect.states} == {Restores.NO}
    with pytest.raises(FlinkError, match="Unrecognized checkpoint version number: 6"):
        flink_1_20.restore(path, job, job)
