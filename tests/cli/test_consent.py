"""A run loses state only if the user agrees."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from rescale.cli.consent import confirm_losses, confirm_mixed_maxima
from rescale.cli.main import main
from rescale.cli.output import Output
from rescale.snapshot.dropped_states import DroppedState
from rescale.snapshot.surgery import NO_SURGERY, Dropped, LostState, Surgery
from rescale.text.errors import RequestError
from support.snapshots import directory
from support.timed_rows import VALUES

OPERATOR_LOSS = Surgery(dropped=(Dropped("ab" * 16, "totals", 1234, (LostState("sum", "VALUE", None),)),))

LOSS_MESSAGE = f"totals ({'ab' * 16}) is dropped: 1.23 kB of state are lost: sum (VALUE)"


STATE_LOSS = Surgery(dropped_states=(DroppedState("ab" * 16, "totals", "sum", "UNION", 3, 12, 12),))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_question_is_asked_without_losses_or_with_yes() -> None:
    confirm_losses(NO_SURGERY, Output("text"), is_confirmed=False)
    confirm_losses(OPERATOR_LOSS, Output("text"), is_confirmed=True)


def test_losses_without_a_terminal_need_the_option_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    with pytest.raises(RequestError, match="was not confirmed") as caught:
        confirm_losses(OPERATOR_LOSS, Output("text"), is_confirmed=False)
    assert (caught.value.found, "--yes" in str(caught.value.advice)) == (LOSS_MESSAGE, True)
    with pytest.raises(RequestError, match="was not confirmed") as caught:
        confirm_losses(STATE_LOSS, Output("text"), is_confirmed=False)
    assert "the state sum (UNION, 3 elements) of totals" in str(caught.value.found)


@pytest.mark.parametrize(("answer", "agrees"), [("yes", True), ("Y", True), ("no", False), ("", False)])
def test_losses_are_asked_about_on_a_terminal(answer: str, agrees: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    monkeypatch.setattr("sys.stderr", terminal)
    if agrees:
        confirm_losses(OPERATOR_LOSS, Output("text"), is_confirmed=False)
    else:
        with pytest.raises(RequestError):
            confirm_losses(OPERATOR_LOSS, Output("text"), is_confirmed=False)
    assert terminal.getvalue().startswith(LOSS_MESSAGE)


def test_run_without_consent_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", directory("2.1.1-clicks"), "--target", str(tmp_path / "target"), "--drop", "visits"]
    assert main(arguments) == 2
    assert "visits (47f7d7461ec906d0f9699003a1af4a6e) is dropped" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_restarts_need_consent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = directory("2-partially-finished"), str(tmp_path / "target")
    run_command = ["run", source, "--target", target, "--parallelism", "5", "--restart", "short"]
    assert main(run_command) == 2
    message = capsys.readouterr().err
    assert "would restart finished subtasks" in message
    assert "a source reads their input again" in message
    assert list(tmp_path.iterdir()) == []
    assert main([*run_command, "--yes"]) == 0, capsys.readouterr()
    assert "1 finished of 2 subtasks of short" in capsys.readouterr().err
    assert main(["validate", source, target, "--restart", "short"]) == 0
    assert main(["validate", source, target]) == 0  # the certificate of the result declares the restart


def test_dropping_old_rows_needs_consent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = directory("2-canonical-rocksdb"), str(tmp_path / "target")
    option = f"--drop-older=states:{VALUES}=1d"
    run_command = ["run", source, "--target", target, "--parallelism", "3", option]
    assert main(run_command) == 2
    message = capsys.readouterr().err
    assert "would lose state" in message
    assert f"the state {VALUES} (VALUE) of states (" in message
    assert list(tmp_path.iterdir()) == []
    assert main([*run_command, "--yes"]) == 0, capsys.readouterr()
    assert f"{VALUES} (VALUE) of states (" in capsys.readouterr().err
    assert main(["validate", source, target, option]) == 0
    assert main(["validate", source, target]) == 0  # the certificate of the result declares the old rows
    assert main(["diff", source, target, option]) == 0


@pytest.mark.parametrize("more_options", [[], ["--max-parallelism", "600"]])
def test_different_max_parallelisms_need_consent(
    more_options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    run_command = [
        "run",
        directory("2-clicks"),
        "--target",
        str(target),
        "--max-parallelism",
        "visits=256",
        *more_options,
    ]
    assert main(run_command) == 2
    message = capsys.readouterr().err
    assert "would give operators different max parallelisms" in message
    assert "Flink restores all operators of a chain with one of their max parallelisms" in message
    assert not target.exists()
    assert main([*run_command, "--yes"]) == 0, capsys.readouterr()


def test_different_max_parallelisms_are_asked_about_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal("yes\n"))
    monkeypatch.setattr("sys.stderr", terminal)
    confirm_mixed_maxima((256, 600), Output("text"), is_confirmed=False)
    assert terminal.getvalue().startswith("operators get different max parallelisms (256 or 600): Flink restores")
