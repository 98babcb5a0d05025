"""Unexpected exceptions are final and have a document, a traceback and an exit code of their own.

They are provoked by plans that no planner makes, which read a file that the plan does not list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from rescale.cli.main import main
from rescale.execution.steps import redistribute_operator_state, reshuffle_keyed_state
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.pieces import Piece
from rescale.plan.plan import Plan
from rescale.process import run_step
from rescale.runstate.claim import claim
from rescale.runstate.places import places_of
from rescale.runstate.step import Step
from rescale.snapshot.places import StreamPlace
from rescale.text.error_document import ErrorDocument
from rescale.text.errors import InternalError, RescaleError
from support import snapshots
from support.pipeline import plan_rescale, shared_processes

UNLISTED_FILE = 99


def plan_to(target: Path, **shape: list[str]) -> Plan:
    return plan_rescale(snapshots.directory("2-clicks"), str(target), **shape)


def with_changed_operators(plan: Plan, change: Callable[[OperatorPlan], OperatorPlan]) -> Plan:
    return replace(plan, operators=tuple(map(change, plan.operators)))


def copying_unlisted_file(plan: Plan) -> Plan:
    def change(operator: OperatorPlan) -> OperatorPlan:
        streams = (
            msgspec.structs.replace(stream, pieces=(Piece(UNLISTED_FILE, 0, stream.size),))
            for stream in operator.streams
        )
        return replace(operator, streams=tuple(streams))

    return with_changed_operators(plan, change)


def reading_unlisted_file(plan: Plan) -> Plan:
    def change(operator: OperatorPlan) -> OperatorPlan:
        if operator.rekeying is None:
            return operator
        sources = tuple(
            source._replace(place=msgspec.structs.replace(source.place, file=UNLISTED_FILE))
            for source in operator.rekeying.sources
            if isinstance(source.place, StreamPlace)
        )
        return replace(operator, rekeying=replace(operator.rekeying, sources=sources))

    return with_changed_operators(plan, change)


def internal_error_of(run: Callable[[], object]) -> InternalError:
    with pytest.raises(InternalError) as caught:
        run()
    error = caught.value
    assert (error.exit_code, error.is_final) == (5, True)
    assert (error.found or "").startswith("IndexError: ")
    assert "Traceback (most recent call last)" in (error.traceback or "")
    assert "IndexError" in (error.traceback or "").splitlines()[-1]
    return error


def error_and_document(plan: Plan, step: Step) -> tuple[InternalError, dict[str, object]]:
    """Return the error that a real process of the step reports, and the document that it leaves."""
    result_uri = places_of(plan).result(step.value)
    arguments = ["--plan", places_of(plan).plan, "--master", "local[2]"]
    error = internal_error_of(lambda: run_step(step, result_uri, arguments))
    document = msgspec.json.decode(Path(result_uri).read_bytes())
    for field in ("seconds", "metrics"):
        del document[field]
    return error, document


def test_fault_in_a_task_is_in_the_result_document_of_its_process(tmp_path: Path) -> None:
    plan = copying_unlisted_file(plan_to(tmp_path / "target"))
    claim(plan)
    error, document = error_and_document(plan, Step.REDISTRIBUTE)
    assert document == {"status": "failed", **msgspec.to_builtins(error.document())}
    assert "piece_chunks" in str(document["traceback"]), "where it was"


@pytest.mark.slow
def test_fault_of_the_driver_is_in_the_result_document_of_its_process(tmp_path: Path) -> None:
    plan = replace(plan_to(tmp_path / "target"), files=())
    claim(plan)
    error, document = error_and_document(plan, Step.VALIDATE)
    assert document == {"status": "failed", **msgspec.to_builtins(error.document())}
    assert "open_pinned" in str(document["traceback"])


@pytest.mark.slow
def test_unexpected_exception_before_the_shuffle_is_an_internal_error(tmp_path: Path) -> None:
    plan = reading_unlisted_file(plan_to(tmp_path / "target", max_parallelism=["1000"]))
    claim(plan)
    error = internal_error_of(lambda: reshuffle_keyed_state(plan, shared_processes()))
    assert "map_task" in (error.traceback or "")


def test_in_process_loop_raises_the_original_exception(tmp_path: Path) -> None:
    """A debugger needs its traceback."""
    plan = copying_unlisted_file(plan_to(tmp_path / "target"))
    claim(plan)
    with pytest.raises(IndexError):
        redistribute_operator_state(plan, InProcessTasks())


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_command_line_ends_with_exit_code_5(
    output_format: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> object:
        raise KeyError("no such thing")

    monkeypatch.setattr("rescale.cli.commands.plan.prepared_plan_of", fail)
    assert main(["plan", snapshots.directory("2-clicks"), "--target", "/t", "--output", output_format]) == 5
    out, err = capsys.readouterr()
    assert "  found: KeyError: 'no such thing'\n" in err
    assert 'raise KeyError("no such thing")' in err
    if output_format == "json":
        error = RescaleError.of_document(msgspec.json.decode(out, type=ErrorDocument))
        assert (type(error), error.found) == (InternalError, "KeyError: 'no such thing'")
