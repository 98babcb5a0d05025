"""Where `rescale` begins: what it takes to answer is imported while Ctrl-C is answered already."""

# PYTHON_ARGCOMPLETE_OK

from __future__ import annotations

import sys

from rescale.cli.termination import answer_termination, exit_code_of


def main() -> int:
    answer_termination()
    try:
        from rescale.cli.main import main as answer

        return answer()
    except KeyboardInterrupt as how:  # where there is no `Output` yet, or no more
        print("interrupted", file=sys.stderr)
        return exit_code_of(how)


if __name__ == "__main__":
    sys.exit(main())
