"""Clocks that change while a process runs: a small C library shifts the clock of whole processes by a number in a file.

Modification times of files are shifted, too. The monotonic clock is not, as when an administrator sets the clock.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.faults import WRITES, Faults
from support.needs import need

_FILE = "SHIFTED_CLOCK"
_SOURCE = Path(__file__).with_name("shifted_clock.c")


@dataclass(frozen=True)
class Clock:
    """The real clock plus the seconds in `file`."""

    file: Path

    def put(self, hours: int) -> None:
        """Set the clock this number of hours ahead of the real clock; a negative number sets it back."""
        with self.file.open("r+b") as file:
            file.write((hours * 3600).to_bytes(8, "little", signed=True))

    def environment(self) -> dict[str, str]:
        """Environment variables that give a process this clock."""
        return {"LD_PRELOAD": str(self.file.with_suffix(".so")), _FILE: str(self.file)}

    @classmethod
    def of_this_process(cls) -> Clock:
        return cls(Path(os.environ[_FILE]))


def new_clock(folder: Path) -> Clock:
    """Return an unshifted clock; its files are in `folder`."""
    need("cc", "a clock is put")
    clock = Clock(folder / "clock")
    clock.file.write_bytes(bytes(8))
    library = clock.file.with_suffix(".so")
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)], check=True)
    return clock


@dataclass(frozen=True)
class ClockShift(Faults):
    """Fault that shifts the clock of this process by `hours` right before the `at`-th write."""

    hours: int = 0

    def around(self, verb: str, subject: str, call: Callable[[], Any]) -> Any:
        if verb in WRITES and self._is_due(f"{verb} {subject}"):
            Clock.of_this_process().put(self.hours)
        answer = call()
        if verb in ("put", "put_if_absent", "copy", "complete_parts") and Path(subject).is_file():
            os.utime(subject, ns=(time.time_ns(), time.time_ns()))
        return answer
