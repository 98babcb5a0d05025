"""Checks the settings in OPTIONS that decide what rows mean (`RocksDBOptionsParser`).

Most of the hundreds of settings in OPTIONS concern the machine where Flink ran, and a reader must not adopt them. But
the comparator, the merge operator (if any) and the table format of each column family must be Flink's. With another
merge operator, RocksDB would return wrong or no values of list states.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from rescale.flink.advice import ASK_FOR_CANONICAL_RESULT, MOVE_ALL_STATE, RESCALE_CANONICAL_SAVEPOINT
from rescale.rocksdb.manifest.version_edit import BYTEWISE
from rescale.text.errors import SnapshotError, UnsupportedError

MERGE_OPERATOR = "{id=StringAppendTESTOperator;delimiter=,}"
"""Flink's `RocksDBKeyedStateBackend.MERGE_OPERATOR_NAME`, as RocksDB 7 and later write it."""

_REQUIRED_OPTIONS = {
    "comparator": (re.compile(re.escape(BYTEWISE)), "a comparator other than Flink's"),
    "merge_operator": (
        re.compile(r"(\{id=)?(StringAppendTESTOperator|stringappendtest)(;delimiter=,)?;?\}?|nullptr"),
        "a merge operator other than Flink's",
    ),
    "table_factory": (re.compile("BlockBasedTable"), "SST files of a format other than Flink's"),
}
_SECTION = re.compile(r'\[([^ "]+)( "(.*)")?\]')
_ESCAPED = re.compile(r"\\(.)")
_LINE_END_BY_ESCAPE = {"n": "\n", "r": "\r"}
_FAMILY_SECTIONS = ("CFOptions", "TableOptions/BlockBasedTable")

_UNREADABLE_VALUES = {
    "format_version": re.compile("[6-9]"),
    "checksum": re.compile("kNoChecksum"),
    "data_block_index_type": re.compile("kDataBlockBinaryAndHash"),
    "compression_opts": re.compile(r".*\bmax_dict_bytes=[1-9].*"),
    "bottommost_compression_opts": re.compile(r"(?=.*\benabled=true).*\bmax_dict_bytes=[1-9].*"),
}
"""Values of options with which RocksDB writes SST files that `sst.table` cannot read, by option."""

_FILTER_OPTIONS = ("compaction_filter", "compaction_filter_factory")
_NULL_POINTER = "nullptr"


def check_options(data: bytes, path: str) -> None:
    """Raise `UnsupportedError` if a comparator, merge operator or table format of a column family is not Flink's.

    `data` is the content of OPTIONS; `path` names the file in errors. Raises `SnapshotError` if it cannot be parsed.
    """
    for family, option, value in _column_family_settings(data, path):
        if option in _REQUIRED_OPTIONS:
            required_value, difference = _REQUIRED_OPTIONS[option]
            if not required_value.fullmatch(value):
                raise UnsupportedError(
                    f"the database has {difference}",
                    path=path,
                    state=family,
                    found=value,
                    advice=RESCALE_CANONICAL_SAVEPOINT,
                )


def unfiltered_families(data: bytes, path: str) -> frozenset[str]:
    """Return the column families without a compaction filter, whose compactions drop no live row.

    Flink sets a filter for states with a TTL, which drops expired rows (`RocksDbTtlCompactFiltersManager`). Arguments
    and errors are those of `check_options`.
    """
    filters_by_family = defaultdict[str, list[str]](list)
    for family, option, value in _column_family_settings(data, path):
        if option in _FILTER_OPTIONS:
            filters_by_family[family].append(value)
    return frozenset(
        family
        for family, filter_values in filters_by_family.items()
        if filter_values == [_NULL_POINTER] * len(_FILTER_OPTIONS)
    )


def refuse_few_levels(data: bytes, path: str, needed_levels: int) -> None:
    """Raise `UnsupportedError` if the job opens a column family with fewer than `needed_levels` levels.

    RocksDB cannot open a column family with a file in a level beyond its number of levels. With FIFO compaction,
    RocksDB has a single level, or deletes files of other levels first (`SanitizeOptions`, `FIFOCompactionPicker`).
    Arguments and other errors are those of `check_options`.
    """
    for family, option, value in _column_family_settings(data, path):
        is_fifo = (option, value) == ("compaction_style", "kCompactionStyleFIFO")
        if is_fifo or (option == "num_levels" and int(value) < needed_levels):
            raise UnsupportedError(
                "the job's RocksDB has too few levels for new files: rewritten rows lie in the last level, changes "
                "above it, and compacted files below level 0",
                path=path,
                state=family,
                expected=f"at least {needed_levels} levels, and no FIFO compaction",
                found=f"{option}={value}",
                advice=ASK_FOR_CANONICAL_RESULT,
            )


def refuse_unreadable_changes(data: bytes, path: str) -> None:
    """Raise `UnsupportedError` if the job writes SST files in a format whose rows a round cannot read.

    Arguments and other errors are those of `check_options`.
    """
    for family, option, value in _column_family_settings(data, path):
        if option in _UNREADABLE_VALUES and _UNREADABLE_VALUES[option].fullmatch(value):
            raise UnsupportedError(
                "rounds cannot read the SST files that this job's RocksDB writes",
                path=path,
                state=family,
                expected="format_version up to 5, with checksums, without dictionaries and hash indexes in data blocks",
                found=f"{option}={value}",
                advice=MOVE_ALL_STATE,
            )


def _column_family_settings(data: bytes, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield (column family, option, value) for each setting of a column family."""
    section = family = None
    for line_number, line in enumerate(_decoded(data, path).split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if match := _SECTION.fullmatch(line):
            section, family = match[1], _unescaped(match[3] or "")
            continue
        option, equals, value = line.partition("=")
        if section is None or not equals:
            raise SnapshotError("OPTIONS cannot be read", path=path, found=f"line {line_number}: {line}")
        if section in _FAMILY_SECTIONS:
            yield family or "", option, value


def _unescaped(name: str) -> str:
    """Return the name of a column family without the escapes that RocksDB writes to OPTIONS (`EscapeOptionString`)."""
    return _ESCAPED.sub(lambda match: _LINE_END_BY_ESCAPE.get(match[1], match[1]), name)


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SnapshotError(f"OPTIONS cannot be read: {error.reason}", path=path) from None
