"""Runs a step for a command, as a process of its own, and takes its result document, which nobody else needs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rescale.cli.terminal import moves_the_cursor
from rescale.process import Step, run_step
from rescale.storage.scratch import ScratchKind, remove_all_left, scratch_folder, temporary_directory


def run_own_step(step: Step, words: Sequence[str], master: str) -> dict[str, Any]:
    """The result document of a step that is given `words` and Spark's master; on a terminal, how far it is is drawn."""
    remove_all_left()
    with scratch_folder(Path(temporary_directory()), ScratchKind.RESULT) as directory:
        # What the store writes beside a file's directory lies in ours then.
        result, words = str(directory / "step" / "result.json"), [*words, "--master", master]
        if not moves_the_cursor():
            return run_step(step, result, words, _say)
        from rescale.cli.drawing import Drawing

        with Drawing() as drawing:
            return run_step(step, result, words, drawing.say, drawing.draw)


def _say(line: str) -> None:
    """Whether or not anybody still reads standard error: the step goes on."""
    with suppress(BrokenPipeError):
        print(line, file=sys.stderr, flush=True)
