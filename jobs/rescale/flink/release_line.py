"""Flink's release lines, and what of a snapshot each of them reads."""

from __future__ import annotations

from typing import NamedTuple

from rescale.flink.metadata.checkpoint_metadata import (
    FIRST_VERSION_WITH_MERGED_CHANNELS,
    FIRST_VERSION_WITH_NAMES,
    FIRST_VERSION_WITH_PROPERTIES,
)


class ReleaseLine(NamedTuple):
    """Such as 2.3; its patch releases read and write the same."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def metadata_version(self) -> int:
        """The newest `_metadata` that it reads (`MetadataSerializers`), and the one that it writes."""
        if self >= (2, 1):
            return FIRST_VERSION_WITH_MERGED_CHANNELS
        return FIRST_VERSION_WITH_NAMES if self.major > 1 else FIRST_VERSION_WITH_PROPERTIES


RELEASE_LINES = tuple(ReleaseLine(1, minor) for minor in (18, 19, 20)) + tuple(ReleaseLine(2, n) for n in range(4))
"""Those of which is known what they read."""

LAST_OF_FLINK_1 = ReleaseLine(1, 20)
FIRST_OF_FLINK_2 = ReleaseLine(2, 0)


def major_of_writer(metadata_version: int) -> int:
    """Whether Flink 1 or 2 wrote `_metadata` of this version."""
    return 1 if metadata_version <= LAST_OF_FLINK_1.metadata_version else 2
