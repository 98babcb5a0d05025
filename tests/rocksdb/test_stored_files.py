"""Files that a handle may list."""

from __future__ import annotations

import pytest

from rescale.rocksdb.stored_files import StoredFile, needed_files, newest_options
from rescale.text.errors import SnapshotError, UnsupportedError

LISTED_NAMES = ["000010.sst", "1234567.sst", "MANIFEST-000004", "OPTIONS-000017", "CURRENT", "IDENTITY"]


def files(*names: str, length: int = 1) -> list[StoredFile]:
    return [StoredFile(name, f"s3://bucket/{name}", length) for name in names]


def test_all_kinds_of_files_that_flink_stores_are_kept() -> None:
    assert needed_files(files(*LISTED_NAMES)) == files(*LISTED_NAMES)


def test_empty_write_ahead_log_is_not_needed() -> None:
    assert needed_files([*files(*LISTED_NAMES), *files("000012.log", length=0)]) == files(*LISTED_NAMES)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("000012.log", "write-ahead log"),
        ("000012.blob", "blob files"),
        *(
            (name, "unknown kind")
            for name in ("../000010.sst", "/etc/passwd", "a/CURRENT", "CURRENT\n", "LOG", "", "x.sst")
        ),
    ],
)
def test_files_that_flink_never_stores_are_refused(name: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        needed_files(files(*LISTED_NAMES, name))
    assert caught.value.found == name
    assert "canonical" in (caught.value.advice or "")


def test_duplicate_file_name_is_refused() -> None:
    with pytest.raises(SnapshotError, match="twice"):
        needed_files(files(*LISTED_NAMES, "CURRENT"))


def test_newest_options_file_is_chosen() -> None:
    listed = files("OPTIONS-000009", "OPTIONS-000100", "OPTIONS-000017", "CURRENT")
    assert newest_options(listed) == listed[1]
    assert newest_options([]) is None
