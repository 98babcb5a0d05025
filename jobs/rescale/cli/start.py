"""Where `rescale` begins: what it takes to answer is imported while Ctrl-C is answered already."""

# PYTHON_ARGCOMPLETE_OK

from __future__ import annotations

import sys


def main() -> int:
    try:
        from rescale.cli.main import main as answer

        return answer()
    except KeyboardInterrupt:  # where there is no `Output` yet, or no more
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
