"""What waits for the end of a demo, and tidies up behind one that was killed.

    python -m rescale.demo.guard MARK FOLDER

Standard input is a pipe that the demo holds the other end of, and that ends with it, however that comes.
"""

from __future__ import annotations

import os
import shutil
import sys

from rescale.demo.processes import end_demo


def main() -> None:
    mark, folder = sys.argv[1:]
    os.read(0, 1)
    end_demo(mark)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
