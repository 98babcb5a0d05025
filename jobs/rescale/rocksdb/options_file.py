"""What OPTIONS says of the meaning of the rows (`RocksDBOptionsParser`), and nothing else of it.

The file holds hundreds of settings of the machine where Flink ran, absolute paths among them, none of which a reader
should take over. But comparator, merge operator and table format of each column family must be Flink's: with another
merge operator, or none, lists would read as something else, or as nothing.
"""

from __future__ import annotations

import re
from configparser import ConfigParser, Error

from rescale.errors import SnapshotError, UnsupportedError
from rescale.rocksdb.advice import CANONICAL
from rescale.rocksdb.version_edit import BYTEWISE

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
_COLUMN_FAMILY = re.compile(r'CFOptions "(.*)"')


def check_options(data: bytes, path: str) -> None:
    """`UnsupportedError` if a column family is not as Flink makes them."""
    parser = ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",), strict=False)
    try:
        parser.read_string(data.decode())
    except (UnicodeDecodeError, Error) as error:
        raise SnapshotError(f"OPTIONS cannot be read: {' '.join(str(error).split())}", path=path) from None
    for section in parser.sections():
        if not (family := _COLUMN_FAMILY.fullmatch(section)):
            continue
        for option, (wanted, otherwise) in _WANTED.items():
            found = parser.get(section, option, fallback=None)
            if found is not None and not wanted.fullmatch(found):
                raise UnsupportedError(
                    f"the database has {otherwise}", path=path, state=family[1], found=found, advice=CANONICAL
                )
