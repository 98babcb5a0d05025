"""Operators whose finished subtasks run again: the operators that may, and their state afterwards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rescale.flink.metadata.checkpoint_metadata import Subtask
from rescale.planning.request.surgery import resolve_operator_surgery
from rescale.report.pages.declared import declared_lines
from rescale.snapshot.model import Operator
from rescale.snapshot.reading.opening import open_snapshot
from rescale.snapshot.surgery import Restarted, Surgery, apply_surgery
from rescale.text.errors import RequestError, UnsupportedError
from support.pipeline import execute_without_spark, plan_rescale
from support.snapshots import directory, opened

PARTLY_FINISHED, WHOLLY_FINISHED = opened("2-partially-finished"), opened("2-finished")


def restarted_operators(
    operators: tuple[Operator, ...], *names: str, drops: tuple[str, ...] = ()
) -> tuple[Restarted, ...]:
    return resolve_operator_surgery(operators, {}, drops, (), names).restarted


def partly_finished_operators(name: str, label: str) -> tuple[Operator, ...]:
    """Return the operators of a snapshot, with the first subtask of one of them as finished."""

    def with_finished_subtask(operator: Operator) -> Operator:
        subtasks = (Subtask(0, True, None), *(s for s in operator.entry.subtasks if s.index))
        return replace(operator, entry=replace(operator.entry, subtasks=subtasks))

    return tuple(with_finished_subtask(o) if o.label == label else o for o in opened(name).operators)


def test_finished_subtasks_are_counted() -> None:
    (partly,), (wholly,) = (
        restarted_operators(PARTLY_FINISHED.operators, "short"),
        restarted_operators(WHOLLY_FINISHED.operators, "short"),
    )
    assert (partly.label, partly.finished, partly.parallelism, partly.assigned) == ("short", 1, 2, False)
    assert (wholly.finished, wholly.parallelism) == (2, 2)
    (source,) = restarted_operators(partly_finished_operators("2-source", "numbers"), "numbers")
    assert source.assigned


def test_restarted_operator_has_no_finished_subtask() -> None:
    for snapshot in (PARTLY_FINISHED, WHOLLY_FINISHED):
        surgery = resolve_operator_surgery(snapshot.operators, {}, restarts=["short"])
        operator_by_label = {operator.label: operator for operator in apply_surgery(snapshot, surgery).operators}
        assert not operator_by_label["short"].is_partially_finished
        assert not operator_by_label["short"].entry.fully_finished


@pytest.mark.parametrize(
    ("operators", "names", "drops", "error_class", "message"),
    [
        (PARTLY_FINISHED.operators, ["long"], (), RequestError, "no subtask of the operator has finished"),
        (PARTLY_FINISHED.operators, ["shrot"], (), RequestError, "no operator 'shrot' in the snapshot"),
        (PARTLY_FINISHED.operators, ["short"], ("short",), RequestError, "dropped, and restarted as well"),
        (
            partly_finished_operators("2-clicks", "visits"),
            ["visits"],
            (),
            UnsupportedError,
            "keyed state: keys of the finished subtasks",
        ),
    ],
)
def test_impossible_restarts_are_refused(
    operators: tuple[Operator, ...],
    names: list[str],
    drops: tuple[str, ...],
    error_class: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error_class) as caught:
        restarted_operators(operators, *names, drops=drops)
    assert message in str(caught.value)


def test_an_operator_with_union_list_state_is_not_restarted() -> None:
    labels = [
        operator.label
        for operator in opened("2-raw").operators
        if not (operator.managed_keyed or operator.raw_keyed)
        and any(state.mode.name == "UNION" for stream in operator.element_streams for state in stream.states)
    ]
    with pytest.raises(UnsupportedError, match=r"union list state .*, of which every subtask needs all elements"):
        restarted_operators(partly_finished_operators("2-raw", labels[0]), labels[0])


def test_declaration_of_a_restart_says_which_work_is_repeated() -> None:
    def declared_line(restarted: Restarted) -> str:
        (sentence,) = declared_lines(Surgery(restarted=(restarted,)))
        return sentence

    files_restart = Restarted("ab" * 16, "files", 1, 3, False)
    assert declared_line(files_restart).startswith(
        f"1 finished of 3 subtasks of files ({'ab' * 16}) run again: they begin without state"
    )
    assert "a second time" in declared_line(files_restart)
    assert "all 3 finished subtasks of files" in declared_line(replace(files_restart, finished=3))
    assert "splits that no subtask has finished" in declared_line(replace(files_restart, assigned=True))


@pytest.mark.parametrize("name", ["2-partially-finished", "2-finished"])
def test_restarted_operator_gets_another_parallelism(name: str, tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    plan = plan_rescale(directory(name), target, ["5"], restarts=["short"])
    assert "its finished subtasks run again, as requested" in " ".join(plan.warnings)
    execute_without_spark(plan)
    short = {operator.label: operator for operator in open_snapshot(target).operators}["short"]
    assert (short.parallelism, short.is_partially_finished, short.entry.fully_finished) == (5, False, False)


def test_refusal_of_another_parallelism_advises_a_restart() -> None:
    with pytest.raises(UnsupportedError, match="some subtasks of this operator have finished") as caught:
        plan_rescale(directory("2-partially-finished"), "/target", ["5"])
    assert "--restart short" in str(caught.value.advice)
