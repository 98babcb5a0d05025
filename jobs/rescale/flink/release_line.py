"""Flink's release lines, and the newest version of `_metadata` that each of them reads, and also writes."""

from __future__ import annotations

from typing import NamedTuple

from rescale.flink.metadata.checkpoint_metadata import (
    FIRST_VERSION_WITH_MERGED_CHANNELS,
    FIRST_VERSION_WITH_NAMES,
    FIRST_VERSION_WITH_PROPERTIES,
)


class ReleaseLine(NamedTuple):
    """A release line such as 2.3, whose patch releases read and write the same formats."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"

    @classmethod
    def parse(cls, release: str) -> ReleaseLine:
        """Return the release line of `release`, which is a release such as `1.14.3` or a line such as `1.14`."""
        major, minor = release.split(".")[:2]
        return cls(int(major), int(minor))

    @property
    def metadata_version(self) -> int:
        """Version of `_metadata` that this line writes, and the newest that it reads (`MetadataSerializers`)."""
        if self >= (2, 1):
            return FIRST_VERSION_WITH_MERGED_CHANNELS
        return FIRST_VERSION_WITH_NAMES if self.major > 1 else FIRST_VERSION_WITH_PROPERTIES


RELEASE_LINES = tuple(ReleaseLine(1, minor) for minor in (18, 19, 20)) + tuple(ReleaseLine(2, n) for n in range(4))
"""Release lines whose formats are known."""

LAST_OF_FLINK_1 = ReleaseLine(1, 20)
FIRST_OF_FLINK_2 = ReleaseLine(2, 0)
FIRST_WITH_MERGED_FILES = ReleaseLine(1, 20)
"""First release line with handles of merged files (FLIP-306); they came without a new version of `_metadata`."""


def major_of_writer(metadata_version: int) -> int:
    """Return the major version of Flink (1 or 2) that writes `_metadata` of this version."""
    return 1 if metadata_version <= LAST_OF_FLINK_1.metadata_version else 2


def kryo_of_writer(metadata_version: int) -> int:
    """Return the major version of the Kryo in the Flink that writes `_metadata` of this version (FLINK-3154)."""
    return 2 if major_of_writer(metadata_version) == 1 else 5
