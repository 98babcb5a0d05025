"""Guard process of a demo: waits for the end of the demo, and cleans up if the demo was killed.

    python -m rescale.demo.guard MARK FOLDER

Standard input is a pipe whose other end the demo holds, so it is closed when the demo ends for any reason.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from rescale.demo.processes import DEMO_MARK_VARIABLE, end_processes
from rescale.storage.scratch import remove_if_abandoned


def main() -> None:
    mark, folder = sys.argv[1:]
    os.read(0, 1)
    end_processes(DEMO_MARK_VARIABLE, mark)
    remove_if_abandoned(Path(folder))  # only a killed demo leaves this folder


if __name__ == "__main__":
    main()
