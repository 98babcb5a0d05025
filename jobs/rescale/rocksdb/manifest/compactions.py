"""SST files that differ between two checkpoints only because compactions have rewritten their rows.

RocksDB logs a compaction as one edit of the MANIFEST, with its inputs and outputs (`CompactionJob::Install`). The
outputs have the live rows of the inputs. So the files of the earlier checkpoint can be followed from edit to edit, and
only rows of files that were flushed in between are new. This needs an unbroken history: the MANIFEST only grows while
the database stays open.

A compaction filter drops live rows, so this is true only for column families without one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rescale.rocksdb.manifest.manifest import read_edits, read_manifest
from rescale.rocksdb.manifest.version_edit import table_name


class PassedTable(NamedTuple):
    """An SST file of a state that was flushed after the earlier checkpoint, and compacted before the later one."""

    state: str
    name: str


class Rewritten(NamedTuple):
    """Files of both checkpoints, by name, whose live rows are the same except for keys in the files that `passed`."""

    files: frozenset[str] = frozenset()
    passed: frozenset[PassedTable] = frozenset()


def rewritten_files(
    earlier: bytes, later: bytes, families: Collection[str], kept: Mapping[str, int], path: str
) -> Rewritten:
    """Return the files that only compactions have rewritten between two checkpoints.

    `earlier` and `later` are their MANIFESTs, `path` names the later one in errors, and `families` are the column
    families without a compaction filter. `kept` has the sizes of the passed files that can still be read. Files that
    may have rows of a passed file that cannot be read are left out. The result is empty if the database was opened
    again in between. Raises as `read_manifest`.
    """
    if not later.startswith(earlier):
        return Rewritten()
    groups = {file.number: _Group({file.number}) for file in read_manifest(earlier, path).files.values()}
    names, flushed = dict[int, str](), dict[int, PassedTable]()
    sizes = dict[int, int]()
    for edit in read_edits(later, path):
        if edit.added is not None:
            names[edit.column_family] = edit.added
        inputs, outputs = {file.number for file in edit.deleted}, {file.number for file in edit.files}
        if edit.position < len(earlier) or not inputs | outputs:
            continue
        state = names.get(edit.column_family, "")
        if not inputs:
            flushed |= {number: PassedTable(state, table_name(number)) for number in outputs}
            sizes |= {file.number: file.size for file in edit.files}
        is_followed = not inputs or (bool(outputs) and state in families)
        group = _joined((groups[number] for number in inputs), outputs, is_followed)
        groups |= dict.fromkeys(group.numbers, group)
    live = {file.number for file in read_manifest(later, path).files.values()}
    files, passed = set[str](), set[PassedTable]()
    for number, group in groups.items():
        gone = (group.numbers & flushed.keys()) - live
        if group.is_followed and all(kept.get(flushed[number].name) == sizes[number] for number in gone):
            passed |= {flushed[number] for number in gone}
            if number not in flushed or number not in live:
                files.add(table_name(number))
    return Rewritten(frozenset(files), frozenset(passed))


@dataclass
class _Group:
    """Numbers of files that are connected by compactions: inputs and outputs.

    `is_followed` says whether every row of the group can be traced to a flushed file or a file of the earlier
    checkpoint, and no live row was dropped.
    """

    numbers: set[int]
    is_followed: bool = True


def _joined(groups: Iterable[_Group], outputs: set[int], is_followed: bool) -> _Group:
    """Return the union of the `groups` of an edit's inputs with its outputs."""
    joined = _Group(set(outputs), is_followed)
    for group in groups:
        joined.numbers |= group.numbers
        joined.is_followed &= group.is_followed
    return joined
