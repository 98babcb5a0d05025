"""Process in which atheris feeds a target: `python -m fuzzing.driver TARGET [libFuzzer options] FOLDER SEEDS`."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import atheris

_TARGET = sys.argv.pop(1)
_COMPILED = os.environ.get("NUMBA_DISABLE_JIT") != "1"

if _COMPILED:  # numba cannot compile instrumented functions: only modules without such functions record coverage
    with atheris.instrument_imports(include=["rescale"]):
        import rescale.rocksdb.sst.table  # noqa: F401

with nullcontext() if _COMPILED else atheris.instrument_imports(include=["rescale"]):
    from fuzzing.limits import limited_memory, limited_time
    from fuzzing.subject import try_out
    from fuzzing.table import subject_of

    subject = subject_of(_TARGET)
    for _seed_path in sorted(Path(sys.argv[-1]).iterdir()):  # loads late imports and caches
        try_out(subject, _seed_path.read_bytes())


def run_input(data: bytes) -> None:
    with limited_memory(), limited_time():
        try_out(subject, data)


atheris.Setup(sys.argv, run_input)
atheris.Fuzz()
