"""Operators that get another id in the result, or are dropped; everything else stays equal."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rescale.execution.compare.diff.snapshots import diff_snapshots
from rescale.execution.compare.validation.declared_differences import check_declared
from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.operator_id import operator_id_of_uid
from rescale.plan.plan import plan_from_json, plan_to_json
from rescale.planning.prepare import prepare
from rescale.planning.request.request import make_request
from rescale.planning.request.surgery_request import parse_surgery
from rescale.report.pages.declared import certified_lines, declared_lines
from rescale.report.stored import document_of
from rescale.runstate.certificate import Certificate, read_certificate
from rescale.runstate.places import places_of
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.dropped_states import state_names
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.surgery import NO_SURGERY, Renamed, Surgery, apply_surgery, as_dropped
from rescale.text.errors import IntegrityError, RequestError, SnapshotError
from support import snapshots
from support.edited import relocated
from support.pipeline import execute_without_spark, plan_rescale
from support.slow import pairs_in_turn

HEX_ID = "ab" * 16


def lost_record_counts(certificate: Certificate) -> dict[str, dict[str, int]]:
    """Return the number of records that each dropped keyed state loses, by operator id and name of the state."""
    counts_by_operator = {
        operator.operator_id: operator.records.left_out
        for operator in certificate.operators
        if operator.records is not None
    }
    return {operator_id: count_by_state for operator_id, count_by_state in counts_by_operator.items() if count_by_state}


RENAME_CASES = [
    ("2-source", ["numbers=figures"], {"parallelism": ["3"]}, "with a coordinator"),
    ("1.20-finished", ["short=brief", "count=tally"], {"parallelism": ["count=3"]}, "finished, which has no subtasks"),
    ("1.20-windows", ["all=whole", f"session={HEX_ID}"], {"parallelism": ["3"]}, "that always runs with one subtask"),
    ("2.1.1-clicks", ["visits=visitors", f"shards={HEX_ID}"], {"max_parallelism": ["64"]}, "whose uid is stored"),
    ("1.20-rocksdb-native", ["clicks-per-user=shards", "shards=clicks-per-user"], {"files": "refer"}, "referred to"),
]


@pytest.mark.parametrize(("name", "renames", "shape", "kind"), RENAME_CASES, ids=[case[3] for case in RENAME_CASES])
def test_renamed_operator_has_its_new_id_in_the_result(
    name: str, renames: list[str], shape: dict[str, Sequence[str]], kind: str, tmp_path: Path
) -> None:
    source, target = open_snapshot(snapshots.directory(name)), str(tmp_path / "target")
    plan = plan_rescale(source.directory, target, **shape, renames=renames)
    assert plan_from_json(plan_to_json(plan), "") == plan
    execute_without_spark(plan)
    result = open_snapshot(target, [source.directory])
    id_by_old_uid = {
        old: HEX_ID if new == HEX_ID else operator_id_of_uid(new)
        for old, _, new in (rename.partition("=") for rename in renames)
    }
    new_id_by_old_id = {operator_id_of_uid(old): new_id for old, new_id in id_by_old_uid.items()}
    for old, new in zip(source.metadata.operators, result.metadata.operators, strict=True):
        assert new.operator_id == new_id_by_old_id.get(old.operator_id, old.operator_id)
        assert (new.name, new.coordinator, new.fully_finished) == (old.name, old.coordinator, old.fully_finished)
    source_uids = {entry.operator_id: entry.uid for entry in source.metadata.operators if entry.uid}
    kept_uids = {new_id_by_old_id.get(old, old): uid for old, uid in source_uids.items() if old not in new_id_by_old_id}
    new_uids = {id_by_old_uid[rename.partition("=")[0]]: rename.partition("=")[2] for rename in renames if source_uids}
    new_uids.pop(HEX_ID, None)
    assert {entry.operator_id: entry.uid for entry in result.metadata.operators if entry.uid} == kept_uids | new_uids
    assert diff_snapshots(source, result, InProcessTasks(), plan.surgery).equal
    assert not diff_snapshots(source, result, InProcessTasks()).equal or "finished" in kind
    certificate = read_certificate(target)
    assert certificate.surgery == plan.surgery
    assert "under its new id" in certificate.proves


def test_published_result_is_validated_with_the_surgery_in_its_certificate(tmp_path: Path) -> None:
    source, target = snapshots.directory("1.20-lazy"), tmp_path / "target"
    uid = snapshots.uids("1.20-lazy")[0][1]
    renames = [f"{uid}=lazier"]
    plan = plan_rescale(source, str(target), ["2"], renames=renames)
    execute_without_spark(plan)
    certificate = read_certificate(str(target))
    second_certificate = validate_published(source, str(target), InProcessTasks())
    assert second_certificate.operators == certificate.operators
    assert second_certificate.surgery == certificate.surgery != NO_SURGERY
    declared_surgery = parse_surgery(renames=renames)
    assert (
        validate_published(source, str(target), InProcessTasks(), declared_surgery=declared_surgery).surgery
        == second_certificate.surgery
    )
    moved_target = target.rename(tmp_path / "moved")
    assert (
        validate_published(source, str(moved_target), InProcessTasks(), declared_surgery=declared_surgery).operators
        == second_certificate.operators
    )
    with pytest.raises(IntegrityError, match="in operators that were not declared as renamed or dropped") as caught:
        validate_published(source, str(moved_target), InProcessTasks())
    assert "--rename OLD=NEW" in str(caught.value.advice)


def test_report_of_a_run_has_the_new_names(tmp_path: Path) -> None:
    source, target = snapshots.directory("2-source"), str(tmp_path / "target")
    plan = plan_rescale(source, target, ["3"], renames=["numbers=figures"])
    execute_without_spark(plan)
    document = document_of(places_of(plan).plan).plan
    assert document is not None
    assert [renamed.uid for renamed in document.surgery.renamed] == ["figures"]
    assert "figures" in {operator.label for operator in document.operators}


def test_dropped_operator_is_missing_with_all_its_state(tmp_path: Path) -> None:
    """Another operator may get the uid of the dropped one."""
    source, target = open_snapshot(snapshots.directory("2.1.1-clicks")), str(tmp_path / "target")
    renames = ["revenue=visits", "clicks=feed"]
    plan = plan_rescale(source.directory, target, ["3"], renames=renames, drops=["visits", "per-half-minute"])
    assert plan_from_json(plan_to_json(plan), "") == plan
    execute_without_spark(plan)
    result = open_snapshot(target)
    assert len(result.operators) == len(source.operators) - 2
    uid_by_id = {entry.operator_id: entry.uid for entry in result.metadata.operators}
    assert uid_by_id[operator_id_of_uid("visits")] == "visits"
    assert not uid_by_id.keys() & {operator_id_of_uid(uid) for uid in ("revenue", "clicks", "per-half-minute")}
    assert diff_snapshots(source, result, InProcessTasks(), plan.surgery).equal
    certificate = read_certificate(target)
    assert certificate.surgery == plan.surgery
    assert "an operator that was declared as dropped has no state in the result" in certificate.proves
    assert not any("Flink can do itself" in warning for warning in certificate.warnings)
    assert any("bytes of state are not in the result" in warning for warning in certificate.warnings)
    dropped_by_label = {dropped.label: dropped for dropped in plan.surgery.dropped}
    assert (
        dropped_by_label["visits"].bytes
        == next(operator.bytes for operator in source.operators if operator.label == "visits")
        > 0
    )
    assert all(dropped.states for dropped in dropped_by_label.values())
    (visits,) = (line for line in declared_lines(plan.surgery) if line.startswith("visits (47f7d7"))
    assert "of state are lost: " in visits
    assert dropped_by_label["visits"].states[0].name in visits
    second_certificate = validate_published(source.directory, target, InProcessTasks())
    assert second_certificate.surgery == certificate.surgery
    drops = ["visits", "per-half-minute"]
    declared_surgery = parse_surgery(renames=renames, drops=drops)
    assert (
        validate_published(source.directory, target, InProcessTasks(), declared_surgery=declared_surgery)
        == second_certificate
    )
    with pytest.raises(IntegrityError, match="in operators that were not declared as renamed or dropped"):
        validate_published(
            source.directory,
            target,
            InProcessTasks(),
            declared_surgery=parse_surgery(renames=renames, drops=["visits"]),
        )


def test_missing_files_of_a_dropped_operator_are_ignored(tmp_path: Path) -> None:
    directory = relocated("2-rocksdb-native", tmp_path / "source")
    source = open_snapshot(str(directory))
    dropped_operator = next(operator for operator in source.operators if operator.databases)
    Path(source.files[dropped_operator.databases[0].files[0].extent.file][0]).unlink()
    with pytest.raises(SnapshotError, match="are gone"):
        plan_rescale(str(directory), str(tmp_path / "target"))
    plan = plan_rescale(str(directory), str(tmp_path / "target"), drops=[dropped_operator.label])
    execute_without_spark(plan)
    assert not open_snapshot(str(tmp_path / "target")).missing_files


DROP_CASES = [
    ("2-clicks", {}, ["clicks-per-user:way", "shards:owners"], "canonical"),
    ("2-clicks", {"parallelism": ["3"], "max_parallelism": ["64"]}, ["revenue:clicks", "revenue:prices"], "regrouped"),
    ("2-heap-native", {"parallelism": ["3"]}, [], "heap"),
    ("1.20-rocksdb-native", {}, ["clicks-per-user:pages", "shards:shards"], "RocksDB"),
    ("2-rocksdb-native", {"parallelism": ["3"], "format": "canonical"}, ["clicks-per-user:pages"], "converted"),
    ("1.20-canonical-compressed", {"parallelism": ["3"]}, [], "compressed"),
]


@pytest.mark.parametrize(
    ("name", "shape", "state_drops"), [case[:3] for case in DROP_CASES], ids=[case[3] for case in DROP_CASES]
)
def test_dropped_state_is_missing_and_its_operator_stays(
    name: str, shape: dict[str, Any], state_drops: list[str], tmp_path: Path
) -> None:
    id_by_uid = {uid: operator_id for operator_id, uid in snapshots.uids(name)}
    source, target = open_snapshot(snapshots.directory(name)), str(tmp_path / "target")
    state_drops = state_drops or _any_states(source)
    plan = plan_rescale(source.directory, target, state_drops=state_drops, **shape)
    assert plan_from_json(plan_to_json(plan), "") == plan
    execute_without_spark(plan)
    result = open_snapshot(target)
    dropped_names = {
        (id_by_uid.get(uid, uid), state) for uid, _, state in (state_drop.partition(":") for state_drop in state_drops)
    }
    source_states = {o.operator_id: {*state_names(o)} for o in source.operators}
    assert dropped_names == {(state.operator_id, state.name) for state in plan.surgery.dropped_states}
    assert all(state in source_states[operator_id] for operator_id, state in dropped_names)
    for operator in result.operators:
        own_dropped_names = {state for operator_id, state in dropped_names if operator_id == operator.operator_id}
        assert {*state_names(operator)} == source_states[operator.operator_id] - own_dropped_names
    assert diff_snapshots(source, result, InProcessTasks(), plan.surgery).equal
    assert not diff_snapshots(source, result, InProcessTasks()).equal
    certificate = read_certificate(target)
    assert certificate.surgery == plan.surgery
    assert {
        operator_id: [*count_by_state] for operator_id, count_by_state in lost_record_counts(certificate).items()
    } == {
        state.operator_id: [state.name]
        for state in plan.surgery.dropped_states
        if state.elements is None and state.bytes is None
    }
    assert all(
        count > 0 for count_by_state in lost_record_counts(certificate).values() for count in count_by_state.values()
    )
    assert "a state that was declared as dropped is not in the result" in certificate.proves
    declared_surgery = parse_surgery(state_drops=state_drops)
    second_certificate = validate_published(
        source.directory, target, InProcessTasks(), declared_surgery=declared_surgery
    )
    assert second_certificate.operators == certificate.operators
    moved_target = str(Path(target).rename(tmp_path / "moved"))
    assert (
        validate_published(source.directory, moved_target, InProcessTasks(), declared_surgery=declared_surgery).surgery
        == second_certificate.surgery
    )
    with pytest.raises(IntegrityError):
        validate_published(source.directory, moved_target, InProcessTasks())


def _any_states(snapshot: Snapshot) -> list[str]:
    """Return a keyed state and an operator state that can be dropped."""
    keyed_operator = next(o for o in snapshot.operators if o.keyed and len(o.keyed[0].state_names) > 1)
    operator_with_elements = next(
        o for o in snapshot.operators if any(s.elements for e in o.element_streams for s in e.states)
    )
    return [
        f"{keyed_operator.operator_id}:{keyed_operator.keyed[0].state_names[0]}",
        f"{operator_with_elements.operator_id}:"
        f"{next(s.name for e in operator_with_elements.element_streams for s in e.states)}",
    ]


def test_plan_says_how_much_of_a_dropped_state_is_lost(tmp_path: Path) -> None:
    state_drops = ["clicks-per-user:way", "shards:owners"]
    plan = plan_rescale(snapshots.directory("2-clicks"), str(tmp_path / "target"), state_drops=state_drops)
    way, owners = declared_lines(plan.surgery)
    assert "the state way (LIST) of clicks-per-user (" in way
    assert re.search(r"is dropped: some of [\d.]+ kB of keyed state are lost$", way), way
    assert "the state owners (UNION, " in owners
    assert plan.surgery.dropped_states[1].bytes == plan.surgery.dropped_states[1].of_bytes > 0
    assert any("records are read and rewritten" in warning for warning in plan.warnings)
    assert not any("Flink can do itself" in warning for warning in plan.warnings)


def test_plan_tells_file_sizes_and_certificate_records_of_a_dropped_rocksdb_state(tmp_path: Path) -> None:
    """The operator is renamed, too. All bytes of an operator with a single state are those of the state."""
    source, target = open_snapshot(snapshots.directory("2-rocksdb-native")), str(tmp_path / "target")
    shape = {"renames": ["clicks-per-user=clicks-by-user"], "state_drops": ["clicks-per-user:pages"]}
    plan = plan_rescale(source.directory, target, ["3"], **shape)
    (pages,) = plan.surgery.dropped_states
    (counting_operator,) = (operator for operator in with_tables(source).operators if operator.databases)
    table_sizes = [table.extent.length for database in counting_operator.databases for table in database.tables]
    assert pages.bytes is None
    assert pages.stored_bytes is not None
    assert 0 < pages.stored_bytes < sum(table_sizes) < pages.of_bytes
    assert "kB in files of RocksDB, out of " in declared_lines(plan.surgery)[-1]
    execute_without_spark(plan)
    certificate = read_certificate(target)
    ((record_count,),) = (count_by_state.values() for count_by_state in lost_record_counts(certificate).values())
    assert f" is dropped: {record_count} records, " in certified_lines(certificate)[-1]
    second_certificate = validate_published(source.directory, target, InProcessTasks())
    assert second_certificate.surgery == certificate.surgery
    assert certificate.surgery == plan.surgery
    only_state = ["tumbling:window-contents"]
    plan = plan_rescale(snapshots.directory("2-rocksdb-lost-timers"), str(tmp_path / "only"), state_drops=only_state)
    (contents,) = plan.surgery.dropped_states
    assert contents.bytes == contents.of_bytes > 0


def test_operator_that_loses_all_keyed_states_has_no_keyed_state(tmp_path: Path) -> None:
    source, target = open_snapshot(snapshots.directory("2-rocksdb-native")), str(tmp_path / "target")
    operator = next(operator for operator in source.operators if operator.label == "clicks-per-user")
    state_drops = [f"clicks-per-user:{name}" for name in state_names(operator)]
    plan = plan_rescale(source.directory, target, ["3"], state_drops=state_drops)
    execute_without_spark(plan)
    result = next(operator for operator in open_snapshot(target).operators if operator.label == "clicks-per-user")
    assert (result.keyed, result.databases) == ((), ())
    assert diff_snapshots(source, open_snapshot(target), InProcessTasks(), plan.surgery).equal


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _garble(file: Path) -> None:
    file.write_bytes(bytes(file.stat().st_size))


@pytest.mark.parametrize(
    ("damage", "name"),
    pairs_in_turn([Path.unlink, _cut, _garble], ["1.20-windows", "2-rocksdb-native"], quick=1),
)
def test_damaged_operator_is_dropped_and_the_others_are_rescaled(
    name: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    """The plan does not need its files, so their later removal does no harm."""
    directory, target = relocated(name, tmp_path / "source"), str(tmp_path / "target")
    uids = dict(snapshots.uids(name))
    source = open_snapshot(str(directory))
    damaged_operator = next(
        operator for operator in source.operators if uids.get(operator.operator_id) in ("tumbling", "clicks-per-user")
    )
    uid = uids[damaged_operator.operator_id]
    holder = (*damaged_operator.keyed, *damaged_operator.databases)[0]
    file_index = holder.header_extent.file
    damage(Path(source.files[file_index][0]))
    if damage is not _garble or name == "1.20-windows":
        with pytest.raises(SnapshotError):
            plan_rescale(str(directory), target, ["3"])
    plan = plan_rescale(str(directory), target, ["3"], drops=[uid])
    assert source.files[file_index][0] not in {file.uri for file in plan.files}
    assert plan.surgery.dropped[0].bytes == damaged_operator.bytes
    for other_uri in {
        source.files[database.header_extent.file][0]
        for database in (*damaged_operator.keyed, *damaged_operator.databases)
    }:
        Path(other_uri).unlink(missing_ok=True)
    execute_without_spark(plan)
    assert len(open_snapshot(target).operators) == len(source.operators) - 1
    planned_document = document_of(places_of(plan).plan).plan
    assert planned_document is not None
    assert planned_document.surgery.dropped[0].bytes == damaged_operator.bytes
    second_certificate = validate_published(str(directory), target, InProcessTasks())
    assert second_certificate.surgery == read_certificate(target).surgery
    declared_surgery = parse_surgery(drops=[uid])
    assert (
        validate_published(str(directory), target, InProcessTasks(), declared_surgery=declared_surgery).operators
        == second_certificate.operators
    )


def test_declared_loss_of_a_dropped_operator_must_be_exact() -> None:
    source = snapshots.opened("1.20-windows")
    (session,) = (operator for operator in source.operators if operator.label == "session")
    surgery = Surgery(dropped=(as_dropped(session),))
    check_declared(source, apply_surgery(source, surgery), surgery)
    surgery_with_fewer_bytes = Surgery(dropped=(replace(surgery.dropped[0], bytes=surgery.dropped[0].bytes - 1),))
    with pytest.raises(IntegrityError, match="of the dropped operator"):
        check_declared(source, apply_surgery(source, surgery), surgery_with_fewer_bytes)
    with pytest.raises(IntegrityError, match="were not declared as renamed or dropped"):
        check_declared(source, source, surgery)
    with pytest.raises(IntegrityError, match=r"does not have .* declared as dropped"):
        check_declared(apply_surgery(source, surgery), apply_surgery(source, surgery), surgery)


def test_refused_rename_writes_nothing(tmp_path: Path) -> None:
    target = tmp_path / "target"
    request = make_request(
        snapshots.directory("2-windows"), str(target), surgery=parse_surgery(renames=["count=tumbling"])
    )
    with pytest.raises(RequestError, match="two operators would get the same id"):
        prepare(request)
    assert list(tmp_path.iterdir()) == []


def renamed(uid: str, new: str, new_id: str | None = None) -> Renamed:
    return Renamed(operator_id_of_uid(uid), uid, new_id or operator_id_of_uid(new), new, new)


@pytest.mark.parametrize(
    ("actual_surgery", "declared_surgery"),
    [
        (Surgery(), Surgery((renamed("count", "tally"),))),
        (Surgery((renamed("count", "tally"),)), Surgery()),
        (Surgery((renamed("count", "tally"),)), Surgery((renamed("count", "tallies"),))),
        (Surgery((renamed("session", "tally"),)), Surgery((renamed("count", "tally"),))),
        (Surgery((renamed("count", "all"), renamed("all", "count"))), Surgery()),
        (Surgery((renamed("nobody", "tally"),)), Surgery((renamed("nobody", "tally"),))),
        (Surgery((renamed("count", "tally", HEX_ID),)), Surgery((renamed("count", "tally", HEX_ID),))),
    ],
)
def test_undeclared_rename_is_found(actual_surgery: Surgery, declared_surgery: Surgery) -> None:
    source = snapshots.opened("1.20-windows")
    with pytest.raises(IntegrityError):
        check_declared(source, apply_surgery(source, actual_surgery), declared_surgery)


def test_other_uid_under_the_declared_id_is_found() -> None:
    source = snapshots.opened("2.1.1-clicks")
    surgery = Surgery((renamed("visits", "visitors"),))
    surgery_with_old_uid = Surgery((renamed("visits", "visits", operator_id_of_uid("visitors")),))
    check_declared(source, apply_surgery(source, surgery), surgery)
    with pytest.raises(IntegrityError, match="uid: result and source differ"):
        check_declared(source, apply_surgery(source, surgery_with_old_uid), surgery)
