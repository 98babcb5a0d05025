"""Model of a right result, derived from the bytes of source and result alone.

The model uses `rescale`'s reader of `_metadata`, but none of its code that moves or compares state: it cuts streams by
their offsets, separates records by the slow reader of the tests, and has its own rules for keys (`flinks_rules`). Keys
whose key groups change are longs.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from rescale.flink.metadata.checkpoint_metadata import OperatorState
from rescale.flink.metadata.handles import DistributionMode
from rescale.text.errors import RescaleError
from simulation.contents import Contents, Elements, KeyedGroups, id_of_uid, state_names
from simulation.flinks_rules import hash_code_of_long, key_group_of_code, key_groups_of_subtask
from simulation.native_databases import UnreadableError
from simulation.rows import KeyedRows, Kind, all_own_rows, assert_rows, assert_same
from support.canonical import Record, read_group

_VERSION_WITH_COMPRESSION = b"\0\0\0\x06"
"""Version of the operator state header with a field for the compression of elements."""


def assert_right(
    source: Mapping[str, bytes],
    result: Mapping[str, bytes],
    elsewhere: Mapping[str, bytes] = MappingProxyType({}),
    *,
    allows_strangers: bool = False,
    by_files: bool = False,
    renames: Sequence[str] = (),
    drops: Sequence[str] = (),
    state_drops: Sequence[str] = (),
) -> None:
    """Raise `WrongError` if anything is lost, doubled or changed, or is not where Flink looks for it.

    The result may refer to files `elsewhere`, given by URI. With `allows_strangers`, files of another run may lie in
    its directory. With `by_files`, only a proof by files was requested. `renames` (`OLD=NEW`), `drops` (`UID`) and
    `state_drops` (`UID:NAME`) are the requested changes.
    """
    old, new = Contents(source), Contents(result, elsewhere)
    old.apply_surgery(renames, drops, state_drops)
    file_names = new.file_names() | {"_metadata"}
    assert_same("files", file_names, file_names & set(result) if allows_strangers else set(result))
    old_metadata, new_metadata = old.metadata, new.metadata
    for field in ("version", "checkpoint_id", "masters"):
        assert_same(field, getattr(old_metadata, field), getattr(new_metadata, field))
    assert_same(
        "operators", [o.operator_id for o in old_metadata.operators], [o.operator_id for o in new_metadata.operators]
    )
    assert_same("backends with a name of their own", len(new.backend_ids()), len(set(new.backend_ids())))
    for operator, new_operator in zip(old_metadata.operators, new_metadata.operators, strict=True):
        for field in ("name", "uid", "coordinator", "fully_finished"):
            assert_same(field, getattr(operator, field), getattr(new_operator, field))
        assert_same("finished subtasks", _finished_subtasks(operator), _finished_subtasks(new_operator))
        compares_rows = _is_compared_by_row(old, new, operator, new_operator)
        if compares_rows:
            _assert_rows(old, new, operator, new_operator, by_files)
        for field in ("raw_keyed",) if compares_rows else ("managed_keyed", "raw_keyed"):
            _assert_keyed(old.keyed(operator, field), new.keyed(new_operator, field), operator, new_operator)
        for field in ("managed_operator", "raw_operator"):
            _assert_elements(old.elements(operator, field), new.elements(new_operator, field), operator, new_operator)


def assert_certified(
    certificate: bytes,
    source: Mapping[str, bytes],
    result: Mapping[str, bytes],
    *,
    renames: Sequence[str] = (),
    drops: Sequence[str] = (),
    state_drops: Sequence[str] = (),
) -> None:
    """Raise `WrongError` if the certificate was altered, is of another `_metadata`, or conceals references or drops."""
    metadata = result["_metadata"]
    document = json.loads(certificate)
    stated_digest = document.pop("document_sha256")
    document_text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert_same("digest of the certificate", hashlib.sha256(document_text.encode()).hexdigest(), stated_digest)
    assert_same("verdict", "complete", document["verdict"])
    assert_same("certified metadata", hashlib.sha256(metadata).hexdigest(), document["candidate_sha256"])
    referred_snapshot = "its base" if document["continues"] else "the source"
    says_elsewhere = f"refers to files of {referred_snapshot}" in (document["does_not_prove"] or "")
    assert_same("whether it says that files lie elsewhere", bool(Contents(result).uris_elsewhere()), says_elsewhere)
    certified_operators, certified_states = document["surgery"]["dropped"], document["surgery"]["dropped_states"]
    assert_same(
        "operators left out",
        {id_of_uid(uid) for uid in drops},
        {operator["operator_id"] for operator in certified_operators},
    )
    dropped_states = {
        (id_of_uid(uid), name) for uid, _, name in (state_drop.partition(":") for state_drop in state_drops)
    }
    assert_same(
        "states left out", dropped_states, {(state["operator_id"], state["name"]) for state in certified_states}
    )
    contents = Contents(source)
    contents.apply_surgery(renames, drops, state_drops)
    for operator, operator_document in zip(contents.metadata.operators, document["operators"], strict=True):
        stated_counts = operator_document["records"]["left_out"] if operator_document["records"] is not None else {}
        dropped_records = {name: count for name, count in stated_counts.items() if count}
        assert_same(
            f"records left out of {operator.operator_id}", contents.dropped_row_counts(operator), dropped_records
        )


def states_of(objects: Mapping[str, bytes], uids: Sequence[str]) -> list[str]:
    """Return the sorted `UID:NAME` of all managed states of operators with these uids."""
    contents, by_id = Contents(objects), {id_of_uid(uid): uid for uid in uids}
    states = set()
    for operator in contents.metadata.operators:
        if operator.operator_id in by_id:
            elements = {
                name for element in contents.elements(operator, "managed_operator") for name in state_names(element)
            }
            states |= {f"{by_id[operator.operator_id]}:{name}" for name in contents.keyed_states(operator) | elements}
    return sorted(states)


def kinds_of(objects: Mapping[str, bytes], drops: Sequence[str] = (), state_drops: Sequence[str] = ()) -> set[Kind]:
    """Return the kinds of keyed state in the operators that stay."""
    contents = Contents(objects)
    contents.apply_surgery((), drops, state_drops)
    return contents.kinds()


def sst_files(objects: Mapping[str, bytes]) -> set[str]:
    """Return the names of SST files in RocksDB directories, or of all files if `_metadata` is unreadable."""
    try:
        contents = Contents(objects)
    except (RescaleError, KeyError):
        return set(objects)
    return {name for operator in contents.metadata.operators for name in contents.sst_files(operator)}


def shapes_of(
    objects: Mapping[str, bytes], renames: Sequence[str] = (), drops: Sequence[str] = ()
) -> dict[str, tuple[int, int]]:
    """Return parallelism and max parallelism of each operator, after renames and drops."""
    contents = Contents(objects)
    contents.apply_surgery(renames, drops)
    operators = contents.metadata.operators
    return {operator.operator_id: (operator.parallelism, operator.max_parallelism) for operator in operators}


def _is_compared_by_row(old: Contents, new: Contents, operator: OperatorState, new_operator: OperatorState) -> bool:
    """Return whether rows must be compared, because the key groups lie in databases or their bytes change."""
    kinds = old.kinds_of(operator) | new.kinds_of(new_operator)
    is_rekeyed = operator.max_parallelism != new_operator.max_parallelism
    is_rewritten = bool(old.dropped_keyed_states(operator))
    return is_rewritten or len(kinds) > 1 or Kind.ROCKSDB in kinds or (Kind.HEAP in kinds and is_rekeyed)


def _assert_rows(
    old: Contents, new: Contents, operator: OperatorState, new_operator: OperatorState, by_files: bool
) -> None:
    """Assert equal rows; where a database was copied unread after it had been damaged, assert equal files.

    With a proof by files, SST files may also stay unread where databases are joined or split.
    """
    try:
        old_rows = old.rows(operator)
    except UnreadableError:
        is_reshaped = (operator.parallelism, operator.max_parallelism) != (
            new_operator.parallelism,
            new_operator.max_parallelism,
        )
        if (is_reshaped and not by_files) or old.has_changelogs(operator):
            raise
        if is_reshaped:
            _assert_tables(old, new, operator, new_operator)
        else:
            assert_same("files of databases", old.databases(operator), new.databases(new_operator))
        return
    assert_rows(old_rows, new.rows(new_operator), operator, new_operator)


def _assert_tables(old: Contents, new: Contents, operator: OperatorState, new_operator: OperatorState) -> None:
    """Assert equal rows in key groups that RocksDB can read on both sides; elsewhere, assert that no SST file is lost.

    Undamaged directories may have been rewritten with other files. In a directory that RocksDB does not open, foreign
    rows may be visible.
    """
    old_rows, new_rows = old.readable_rows(operator), new.readable_rows(new_operator)
    readable_groups = _key_groups(old_rows) & _key_groups(new_rows)
    assert_same(
        "rows",
        *(
            Counter(pair for pair in all_own_rows(side) if pair[0][1] in readable_groups)
            for side in (old_rows, new_rows)
        ),
    )
    compared_subtasks = {stream.subtask for stream in old_rows if readable_groups.issuperset(stream.key_groups)}
    unread_databases = [
        (subtask, files) for subtask, files in old.databases(operator) if subtask not in compared_subtasks
    ]
    assert_same("SST files that are gone", set(), _tables(unread_databases) - _tables(new.databases(new_operator)))


def _key_groups(streams: list[KeyedRows]) -> set[int]:
    return {group for stream in streams for group in stream.key_groups}


def _tables(databases: list[tuple[int, dict[str, bytes]]]) -> set[bytes]:
    return {data for _, files in databases for name, data in files.items() if name.endswith(".sst")}


def _assert_keyed(
    old: list[KeyedGroups], new: list[KeyedGroups], operator: OperatorState, new_operator: OperatorState
) -> None:
    for stream in new:
        own_groups = key_groups_of_subtask(new_operator.max_parallelism, new_operator.parallelism, stream.subtask)
        assert_same(f"key groups of subtask {stream.subtask}", own_groups, stream.key_groups)
    if len({stream.header for stream in old}) == 1:
        if new or _data_by_group(old):
            assert_same("headers", {stream.header for stream in old}, {stream.header for stream in new})
        if operator.max_parallelism == new_operator.max_parallelism:
            assert_same("key groups", _data_by_group(old), _data_by_group(new))
            return
    if operator.max_parallelism == new_operator.max_parallelism:
        assert_same("numbers of the key groups", set(_data_by_group(old)), set(_data_by_group(new)))
        return
    old_records, new_records = _records(old, operator.max_parallelism), _records(new, new_operator.max_parallelism)
    if len({stream.header for stream in old}) > 1:  # a rotted header numbers its states differently
        old_records, new_records = (
            [(group, record._replace(state=0)) for group, record in some] for some in (old_records, new_records)
        )
    assert_same("records", Counter(record for _, record in old_records), Counter(record for _, record in new_records))
    for group, record in new_records:
        code = hash_code_of_long(int.from_bytes(record.key[:8], "big", signed=True))
        assert_same("key group of a record", key_group_of_code(code, new_operator.max_parallelism), group)


def _data_by_group(streams: list[KeyedGroups]) -> dict[int, bytes]:
    assert_same(
        "key groups that are there once", sum(len(stream.groups) for stream in streams), len({*_group_numbers(streams)})
    )
    return {group: data for stream in streams for group, data in stream.groups.items()}


def _group_numbers(streams: list[KeyedGroups]) -> Iterator[int]:
    for stream in streams:
        yield from stream.groups


def _records(streams: list[KeyedGroups], max_parallelism: int) -> list[tuple[int, Record]]:
    records = []
    for group, data in _data_by_group(streams).items():
        for found_group, record in read_group(data, max_parallelism):
            assert_same("key group in front of a key", group, found_group)
            records.append((group, record))
    return records


def _as_java_reads(header: bytes) -> bytes:
    """Return an operator state header with its flag for compression (version 6, fifth byte) as 0 or 1."""
    return header[:4] + bytes((header[4] != 0,)) + header[5:] if header[:4] == _VERSION_WITH_COMPRESSION else header


def _assert_elements(
    old: list[Elements], new: list[Elements], operator: OperatorState, new_operator: OperatorState
) -> None:
    if len({stream.header for stream in old}) == 1:
        headers = [{_as_java_reads(stream.header) for stream in side} for side in (old, new)]
        assert_same("headers of operator state", *headers)
    if operator.parallelism == new_operator.parallelism:
        assert_same("operator state", _states_by_subtask(old), _states_by_subtask(new))
        return
    names = {state for stream in old for state in stream.states}
    assert_same("states", names, {state for stream in new for state in stream.states})
    if old:
        assert_same(
            "subtasks with operator state", list(range(new_operator.parallelism)), [stream.subtask for stream in new]
        )
    for state in names:
        old_elements = [stream.states.get(state, []) for stream in old]
        new_elements = [stream.states.get(state, []) for stream in new]
        if state[1] is DistributionMode.BROADCAST:
            copies = {tuple(some) for some in old_elements if some}
            assert_same(
                f"subtasks without a copy of {state[0]}",
                0,
                sum(tuple(some) not in copies for some in new_elements if copies),
            )
            continue
        assert_same(
            f"elements of {state[0]}",
            *(Counter(e for some in side for e in some) for side in (old_elements, new_elements)),
        )
        counts = [len(some) for some in new_elements]
        assert_same(f"whether {state[0]} is dealt evenly", True, max(counts) - min(counts) <= 1)


def _states_by_subtask(streams: list[Elements]) -> dict[int, dict[tuple[str, DistributionMode], list[bytes]]]:
    return {stream.subtask: stream.states for stream in streams}


def _finished_subtasks(operator: OperatorState) -> list[int]:
    return [subtask.index for subtask in operator.subtasks if subtask.finished]
