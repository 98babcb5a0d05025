"""Compares the outcomes of inputs when loops run in Python, which shows coverage, and in machine code, as for users.

`python -m fuzzing.outcomes TARGET FOLDER` prints a line for each file. `different_outcomes` runs this command in both
ways, and compares the lines.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from fuzzing.limits import limited_memory, limited_time
from fuzzing.subject import try_out
from fuzzing.table import subject_of


def different_outcomes(name: str, folder: Path) -> list[str]:
    """Return a line with both outcomes for each input in a folder whose outcomes differ."""
    python_lines, machine_code_lines = (_outcomes(name, folder, jit_disabled) for jit_disabled in ("1", "0"))
    input_count = len(list(folder.iterdir()))
    for mode, lines in (("Python", python_lines), ("machine code", machine_code_lines)):
        if len(lines) < input_count:
            return [f"only {len(lines)} of {input_count} inputs come to an end in {mode}"]
    return [f"{line} / {other}" for line, other in zip(python_lines, machine_code_lines, strict=True) if line != other]


def _outcomes(name: str, folder: Path, jit_disabled: str) -> list[str]:
    command = [sys.executable, "-m", "fuzzing.outcomes", name, str(folder)]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": jit_disabled}
    completed_process = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return [line for line in completed_process.stdout.splitlines() if line.startswith("=")]


def _normalised_outcome(line: str) -> str:
    """Return an outcome on one line, without temporary folders or digests of plans, which depend on the folders."""
    own_folder_pattern = re.escape(tempfile.gettempdir()) + r"/rescale-fuzzing-\w+"
    return re.sub(rf"{own_folder_pattern}|\b[0-9a-f]{{64}}\b", "", " ".join(line.split()))


def main() -> None:
    subject = subject_of(sys.argv[1])
    try_out(subject, next(subject.seeds()))
    for path in sorted(Path(sys.argv[2]).iterdir()):
        with limited_memory(), limited_time():
            error = try_out(subject, path.read_bytes())
        print(f"={path.name} {type(error).__name__} {_normalised_outcome(str(error))}", flush=True)


if __name__ == "__main__":
    main()
