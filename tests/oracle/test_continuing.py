"""Chains of real checkpoints: each round continues the last result, and its result equals that of a full run.

The job adds to values, lists, maps and lists with a time to live, sets and deletes timers, and clears the state of some
users. In one round only compactions change files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs

from oracle.cases import ROCKSDB, graph
from oracle.harness import Flink, Job
from oracle.test_copies import INCREMENTAL, MERGING
from rescale.execution.steps import validate_coverage, validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.execution.writers.protocol import Blocks
from rescale.execution.writers.rocksdb import rows_writer
from rescale.execution.writers.rocksdb.rows_writer import changes_of_blocks
from rescale.flink.arrays import Longs
from rescale.insight.file_changes import file_changes
from rescale.plan.pieces import Piece
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.plan.rekeying import Rekeying
from rescale.rocksdb.assembly.new_database import ChangesPlace
from rescale.rocksdb.engine.table_writer import Rows
from rescale.runstate.certificate import Certificate
from rescale.runstate.publication import publish
from rescale.snapshot.databases.live_tables import with_tables
from rescale.snapshot.places import ChangePlace, ChangeSide
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError, SnapshotError
from support.diffing import diff
from support.pipeline import certify, execute_without_spark, move, plan_continued, plan_rescale
from support.slow import slow

CHURN = graph("churn", 2).with_(parameters={"keys": 60})
KINDS_BY_ROUND = (("wave", "checkpoint"), ("checkpoint",), *[("wave", "checkpoint")] * 3)
WAVE_COUNT = sum(kinds.count("wave") for kinds in KINDS_BY_ROUND)


@dataclass(frozen=True)
class Case:
    line: str
    parallelism: int
    max_parallelism: int
    configuration: tuple[tuple[str, str], ...] = tuple(INCREMENTAL.items())

    @property
    def job(self) -> Job:
        return CHURN.with_(**ROCKSDB, configuration=dict(self.configuration))


CASES = (
    pytest.param(Case("2", 3, 1000), id="2 to 3 of 1000"),
    slow(Case("1.20", 3, 1000), id="1.20 to 3 of 1000"),
    slow(Case("1.20", 4, 64), id="1.20 to 4 of 64"),
    slow(Case("2", 1, 64, tuple(MERGING.items())), id="2 with merged files"),
)


def execute_with(plan: Plan, proof: Proof) -> Certificate:
    """Move, validate and publish; return the certificate."""
    certificate = certify(plan, proof)
    publish(plan)
    return certificate


@pytest.mark.parametrize("case", CASES)
def test_continued_rounds_give_what_a_full_run_gives(
    retaining_flink: Callable[[str], Flink], tmp_path: Path, case: Case
) -> None:
    kinds = ["checkpoint", *(kind for round_ in KINDS_BY_ROUND for kind in round_)]
    flink = retaining_flink(case.line)
    first, *later = flink.snapshots(case.job, tmp_path / "source", *kinds)
    shape = [str(case.parallelism)]
    execute_without_spark(
        plan_rescale(str(first), str(tmp_path / "0"), shape, max_parallelism=[str(case.max_parallelism)])
    )
    for round_number, (before, source) in enumerate(pairwise([first, *later]), 1):
        target, base = tmp_path / str(round_number), tmp_path / str(round_number - 1)
        plan = plan_continued(str(source), str(target), str(base), shape, [str(case.max_parallelism)])
        assert [operator.is_continued for operator in plan.operators if operator.rekeying] == [True]
        changes = file_changes(open_snapshot(str(before)), open_snapshot(str(source)))
        assert changes.total("read") == plan.bytes_compared, "diff --by-file differs from what a round reads"
        execute_with(plan, Proof.CHANGES)
        validate_published(str(source), str(target), InProcessTasks(2, None))
        difference = diff(open_snapshot(str(source)), open_snapshot(str(target)))
        assert difference.equal, [
            state for operator in difference.operators for state in operator.states if not state.equal
        ]
    full_target = tmp_path / "full"
    execute_without_spark(
        plan_rescale(str(later[-1]), str(full_target), shape, max_parallelism=[str(case.max_parallelism)])
    )
    assert diff(open_snapshot(str(target)), open_snapshot(str(full_target))).equal
    levels = {
        file.level
        for operator in with_tables(open_snapshot(str(target))).operators
        for database in operator.databases
        if database.source is not None
        for file in database.source.manifest.files.values()
    }
    assert levels == {6, 5, 4, 3, 2}, "the levels are not those of the base and the four rounds with changes"
    job_after_waves = CHURN.with_(parameters={**CHURN.parameters, "waves": WAVE_COUNT})
    rescaled_job = case.job.with_(parallelism=case.parallelism, max_parallelism=case.max_parallelism)
    verdict = flink.restore(target, job_after_waves, rescaled_job, next_kind="checkpoint")
    assert verdict.ok, verdict


Plant = Callable[[Rekeying], Rekeying]
Side = ChangeSide[Piece]


def without_a_directory(rekeying: Rekeying) -> Rekeying:
    """Leave out the changes of one subtask."""
    return replace(rekeying, sources=rekeying.sources[1:])


def with_files_taken_for_the_same(rekeying: Rekeying) -> Rekeying:
    """Treat the first file that only one checkpoint has as unchanged, so that its keys are not read."""

    def fewer(side: Side | None) -> Side | None:
        return side and side._replace(files_to_read=side.files_to_read[1:])

    return with_changes(rekeying, lambda place: (fewer(place.before), fewer(place.after)))


def in_the_wrong_order(rekeying: Rekeying) -> Rekeying:
    """Take the later checkpoint for the earlier one."""
    return with_changes(rekeying, lambda place: (place.after, place.before))


def with_changes(
    rekeying: Rekeying, sides: Callable[[ChangePlace[Piece]], tuple[Side | None, Side | None]]
) -> Rekeying:
    """Return the rekeying with the sides of each change that `sides` returns: its earlier and its later checkpoint."""
    places = []
    for place in rekeying.changes:
        before, after = sides(place)
        places.append(structs.replace(place, before=before, after=after))
    sources = zip(rekeying.sources, places, strict=True)
    return replace(rekeying, sources=tuple(source._replace(place=place) for source, place in sources))


def below_the_base(rekeying: Rekeying) -> Rekeying:
    """Put changes below the rows that they change."""
    changes = ChangesPlace(level=5, sequence=0)
    return replace(rekeying, bases=tuple(base._replace(changes=changes) for base in rekeying.bases))


FAULTS = (without_a_directory, with_files_taken_for_the_same, in_the_wrong_order, below_the_base)


@pytest.fixture(scope="module")
def chain(retaining_flink: Callable[[str], Flink], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return a result of the first of three checkpoints, the checkpoints, and a native savepoint after the last."""
    folder = tmp_path_factory.mktemp("chain")
    kinds = ["checkpoint", "wave", "checkpoint", "wave", "checkpoint", "native"]
    paths = retaining_flink("2").snapshots(CHURN.with_(**ROCKSDB, configuration=INCREMENTAL), folder / "source", *kinds)
    execute_without_spark(plan_rescale(str(paths[0]), str(folder / "base"), ["3"], max_parallelism=["1000"]))
    return [str(folder / "base"), *map(str, paths)]


def test_savepoint_continues_a_checkpoint(chain: list[str], tmp_path: Path) -> None:
    """Flink has uploaded all files of the savepoint again."""
    target = tmp_path / "target"
    execute_with(plan_continued(chain[4], str(target), chain[0], ["3"], ["1000"]), Proof.CHANGES)
    validate_published(chain[4], str(target), InProcessTasks(2, None))
    assert diff(open_snapshot(chain[4]), open_snapshot(str(target))).equal


def refuse_to_certify(plan: Plan, proofs: Sequence[Proof] = (Proof.CHANGES, Proof.RECORDS)) -> None:
    """Check that none of the proofs accepts the result of the plan."""
    tasks = InProcessTasks(2, None)
    move(plan, tasks)
    for proof in proofs:
        with pytest.raises(IntegrityError):
            validate_coverage(plan, tasks, proof)


@pytest.mark.parametrize("plant", FAULTS)
def test_planted_fault_in_changes_is_found(chain: list[str], tmp_path: Path, plant: Plant) -> None:
    plan = plan_continued(chain[2], str(tmp_path / "target"), chain[0], ["3"], ["1000"])
    refuse_to_certify(plan_with_fault(plan, plant))


def plan_with_fault(plan: Plan, plant: Plant) -> Plan:
    """Plant a fault in each operator that is continued."""
    operators = tuple(
        replace(operator, rekeying=plant(operator.rekeying))
        if operator.rekeying is not None and operator.is_continued
        else operator
        for operator in plan.operators
    )
    assert operators != plan.operators
    return replace(plan, operators=operators)


def test_deleted_row_that_comes_back_is_found(
    chain: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_deletes(blocks: Blocks) -> Iterator[tuple[Rows, Longs]]:
        for rows, order in changes_of_blocks(blocks):
            yield rows, order[rows.kinds[order] != 0]

    monkeypatch.setattr(rows_writer, "changes_of_blocks", without_deletes)
    refuse_to_certify(plan_continued(chain[2], str(tmp_path / "target"), chain[0], ["3"], ["1000"]))


@pytest.mark.parametrize(
    "misplace",
    [
        pytest.param(lambda place: place._replace(sequence=0), id="number 0"),
        pytest.param(lambda place: place._replace(sequence=place.sequence - 1), id="number of the round before"),
        pytest.param(lambda place: place._replace(level=place.level + 1), id="level of the round before"),
        pytest.param(lambda place: place._replace(level=6), id="level of the base"),
    ],
)
def test_rounds_in_the_wrong_order_are_found(
    chain: list[str], tmp_path: Path, misplace: Callable[[ChangesPlace], ChangesPlace]
) -> None:
    """The second round's sequence number or level is not above that of the first.

    The writer reads its MANIFEST again, and refuses most of these rounds before the proof does.
    """
    second = tmp_path / "second"
    execute_without_spark(plan_continued(chain[2], str(second), chain[0], ["3"], ["1000"]))
    plan = plan_continued(chain[3], str(tmp_path / "target"), str(second), ["3"], ["1000"])

    def with_misplaced_changes(rekeying: Rekeying) -> Rekeying:
        return replace(rekeying, bases=tuple(base._replace(changes=misplace(base.changes)) for base in rekeying.bases))

    faulty_plan = plan_with_fault(plan, with_misplaced_changes)
    with pytest.raises((IntegrityError, SnapshotError, AssertionError)):
        execute_with(faulty_plan, Proof.CHANGES)


def test_round_that_is_applied_twice_is_found_but_does_no_harm(chain: list[str], tmp_path: Path) -> None:
    """The changes from the second checkpoint to the third are laid over the result of the third."""
    second, third, target = (tmp_path / name for name in ("second", "third", "target"))
    execute_without_spark(plan_continued(chain[2], str(second), chain[0], ["3"], ["1000"]))
    third_plan = plan_continued(chain[3], str(third), str(second), ["3"], ["1000"])
    execute_without_spark(third_plan)
    plan = plan_with_changes_of(plan_continued(chain[3], str(target), str(third), ["3"], ["1000"]), third_plan)
    move(plan, InProcessTasks(2, None))
    with pytest.raises(IntegrityError, match="the changes since the base differ"):
        validate_coverage(plan, InProcessTasks(2, None), Proof.CHANGES)
    execute_with(plan, Proof.RECORDS)
    assert diff(open_snapshot(chain[3]), open_snapshot(str(target))).equal


@pytest.mark.parametrize("overlay", ["all changes over the later result", "the last changes over the first result"])
def test_changes_over_another_result_than_they_are_for_are_found(
    chain: list[str], tmp_path: Path, overlay: str
) -> None:
    """Changes since the first checkpoint include those since the second, so they make the right result.

    In the other case, the result lacks a round.
    """
    second = tmp_path / "second"
    execute_without_spark(plan_continued(chain[2], str(second), chain[0], ["3"], ["1000"]))
    plan_since_second = plan_continued(chain[3], str(tmp_path / "target"), str(second), ["3"], ["1000"])
    plan_since_first = plan_continued(chain[3], str(tmp_path / "target"), chain[0], ["3"], ["1000"])
    if overlay.startswith("all"):
        refuse_to_certify(plan_with_changes_of(plan_since_second, plan_since_first), [Proof.CHANGES])
    else:
        refuse_to_certify(plan_with_changes_of(plan_since_first, plan_since_second))


def plan_with_changes_of(plan: Plan, other: Plan) -> Plan:
    """Return a plan that lays the changes of another plan over its own base."""
    known_uris = {file.uri for file in plan.files}
    files = (*plan.files, *(file for file in other.files if file.uri not in known_uris))
    number_by_uri = {file.uri: number for number, file in enumerate(files)}
    new_numbers = [number_by_uri[file.uri] for file in other.files]
    operators = []
    for operator, other_operator in zip(plan.operators, other.operators, strict=True):
        if operator.rekeying is None or not operator.is_continued:
            operators.append(operator)
            continue
        assert other_operator.rekeying is not None
        changes = with_changes(
            other_operator.rekeying,
            lambda place: (renumbered_side(place.before, new_numbers), renumbered_side(place.after, new_numbers)),
        )
        operators.append(replace(operator, rekeying=replace(operator.rekeying, sources=changes.sources)))
    return replace(plan, files=files, operators=tuple(operators))


def renumbered_side(side: Side | None, numbers: Sequence[int]) -> Side | None:
    """Return the side with its files renumbered."""
    if side is None:
        return None

    def renumbered_header(header: Piece) -> Piece:
        return header if header.file is None else header._replace(file=numbers[header.file])

    return side._replace(database=side.database.renumbered(numbers).with_headers(renumbered_header))
