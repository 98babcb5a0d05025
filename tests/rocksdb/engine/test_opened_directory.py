"""Directories that RocksDB must not open, or would open wrongly."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from rescale.rocksdb.engine.library import RocksdbError
from rescale.rocksdb.engine.opened_directory import open_directory


@pytest.mark.parametrize("read_only", [True, False])
def test_state_name_with_a_zero_character_is_refused(tmp_path: Path, read_only: bool) -> None:
    """The library would take the name to be `a`, which may be the name of another state."""
    with ExitStack() as stack, pytest.raises(RocksdbError, match=r"a zero character: 'a\\x00b'"):
        open_directory(tmp_path, ["default", "a", "a\0b"], "", stack, is_read_only=read_only)
    assert not list(tmp_path.iterdir())
