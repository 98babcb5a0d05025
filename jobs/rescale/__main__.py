"""`python -m rescale`, for where the script is not on the path."""

import sys

from rescale.cli.start import main

sys.exit(main())
