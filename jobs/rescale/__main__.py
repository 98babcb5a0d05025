"""`python -m rescale`, for environments without the script `rescale` on the path."""

import sys

from rescale.cli.start import main

sys.exit(main())
