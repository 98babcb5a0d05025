"""Steps that a command runs in separate processes, with temporary result documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from rescale.cli.terminal import can_draw, print_remark
from rescale.lasting_process import LastingProcess
from rescale.plan.plan import Plan
from rescale.plan.proof import Proof
from rescale.process import ResultDocument, run_step
from rescale.runstate.step import Step
from rescale.storage.files import owned
from rescale.storage.scratch import ScratchKind, remove_all_abandoned, scratch_folder, temporary_directory


def run_command_step(
    step: Step, arguments: Sequence[str], master: str, text_by_flag: Mapping[str, str] | None = None
) -> ResultDocument:
    """Run a step with these arguments and a Spark master, and return its result document.

    `text_by_flag` has the texts of options that name files, by the options' flags: the step reads them from temporary
    files. On a terminal, draw the progress of the step.
    """
    remove_all_abandoned()
    with scratch_folder(Path(temporary_directory()), ScratchKind.RESULT) as directory:
        # The result is in a subdirectory, because the store puts temporary files beside the directory of a file.
        result_uri, arguments = str(directory / "step" / "result.json"), [*arguments, "--master", master]
        for flag, text in (text_by_flag or {}).items():
            file = directory / flag.removeprefix("--")
            owned.write_new(file, text.encode())
            arguments.append(f"{flag}={file}")
        if not can_draw():
            return run_step(step, result_uri, arguments, _say)
        from rescale.cli.drawing import Drawing

        with Drawing() as drawing:
            return run_step(step, result_uri, arguments, drawing.say, drawing.draw)


class CarryOut(Protocol):
    """Function that moves and validates the state of a claimed plan.

    After the work has started, it calls `meanwhile`, and prints the line that `meanwhile` returns.
    """

    def __call__(self, plan: Plan, proof: Proof, meanwhile: Callable[[], str] | None = None) -> None: ...


@contextmanager
def lasting_mover(master: str, record_bytes: int | None = None) -> Iterator[CarryOut]:
    """Yield a function that moves and validates the state of a claimed plan.

    All calls use one process, which starts at once and ends with the block. `record_bytes` are the bytes of records
    that the first plan moves, if known. On a terminal, the function draws the progress.
    """
    draws = can_draw()
    with LastingProcess(master, _say, sends_ticks=draws, record_bytes=record_bytes) as process:
        process.begin()

        def carry_out(plan: Plan, proof: Proof, meanwhile: Callable[[], str] | None = None) -> None:
            if not draws:
                process.move(plan, proof, meanwhile=meanwhile)
                return
            from rescale.cli.drawing import Drawing

            with Drawing() as drawing:
                process.move(plan, proof, drawing.say, drawing.draw, meanwhile)

        remove_all_abandoned()
        yield carry_out


def _say(line: str) -> None:
    """Print a line on standard error; if it was closed, the step continues without output."""
    with suppress(BrokenPipeError):
        print_remark(line)
