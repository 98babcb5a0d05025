"""What OPTIONS says of the meaning of the rows (`RocksDBOptionsParser`), and nothing else of it.

The file holds hundreds of settings of the machine where Flink ran, absolute paths among them, none of which a reader
should take over. But comparator, merge operator and table format of each column family must be Flink's: with another
merge operator, or none, lists would read as something else, or as nothing.
"""

from __future__ import annotations

import re

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.advice import CANONICAL
from rescale.rocksdb.manifest.version_edit import BYTEWISE

MERGE_OPERATOR = "{id=StringAppendTESTOperator;delimiter=,}"
"""Flink's `RocksDBKeyedStateBackend.MERGE_OPERATOR_NAME`, in the words of RocksDB 7 and later."""

_WANTED = {
    "comparator": (re.compile(re.escape(BYTEWISE)), "a comparator other than Flink's"),
    "merge_operator": (
        re.compile(r"(\{id=)?(StringAppendTESTOperator|stringappendtest)(;delimiter=,)?;?\}?|nullptr"),
        "a merge operator other than Flink's",
    ),
    "table_factory": (re.compile("BlockBasedTable"), "SST files of another format"),
}
_SECTION = re.compile(r'\[([^ "]+)( "(.*)")?\]')
_OF_COLUMN_FAMILY = "CFOptions"


def check_options(data: bytes, path: str) -> None:
    """`UnsupportedError` if a column family is not as Flink makes them."""
    section = family = None
    for number, line in enumerate(_text(data, path).split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if found := _SECTION.fullmatch(line):
            section, family = found[1], found[3]
            continue
        option, equals, value = line.partition("=")
        if section is None or not equals:
            raise SnapshotError("OPTIONS cannot be read", path=path, found=f"line {number}: {line}")
        if section == _OF_COLUMN_FAMILY and option in _WANTED:
            wanted, otherwise = _WANTED[option]
            if not wanted.fullmatch(value):
                raise UnsupportedError(
                    f"the database has {otherwise}", path=path, state=family, found=value, advice=CANONICAL
                )


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SnapshotError(f"OPTIONS cannot be read: {error.reason}", path=path) from None
