"""Types of the arrays that the compiled loops work on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Longs = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
HashCodes = npt.NDArray[np.int32]
"""Results of Java's `hashCode`."""
Flags = npt.NDArray[np.bool_]
