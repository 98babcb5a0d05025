"""Entry point of `rescale`: it handles Ctrl-C before it imports everything else."""

# PYTHON_ARGCOMPLETE_OK

from __future__ import annotations

import atexit
import gc
import sys

from rescale.cli.termination import exit_code_of, raise_on_sigterm


def main() -> int:
    raise_on_sigterm()
    try:
        gc.set_threshold(10_000)  # imports leave no garbage; looking for it would take a tenth of the start-up time
        atexit.register(gc.freeze)  # no garbage collection at exit either
        from rescale.cli.main import main as run_command_line

        return run_command_line()
    except KeyboardInterrupt as interruption:  # raised before there is an `Output` that could report it
        print("interrupted", file=sys.stderr)
        return exit_code_of(interruption)


if __name__ == "__main__":
    sys.exit(main())
