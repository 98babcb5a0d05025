"""Choices of a request: the format of keyed state in the result, and the treatment of RocksDB's files."""

from __future__ import annotations

from enum import StrEnum


class Format(StrEnum):
    """The format of keyed state in the result."""

    KEEP = "keep"
    """The format of the source."""

    CANONICAL = "canonical"
    """The format that every state backend except ForSt restores."""

    ROCKSDB = "rocksdb"
    """Directories of RocksDB files, which the RocksDB state backend opens without conversion."""


class Files(StrEnum):
    """The treatment of files in RocksDB directories that the result needs unchanged."""

    COPY = "copy"
    """The files are copied, so the result does not depend on the source."""

    REFER = "refer"
    """The files stay in the source, and the result refers to them, so the source must be kept."""
