"""Keyed state whose records get new key groups: all that can be said beforehand is which are read, and the header.

At another max parallelism, or in another format, every record may go elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rescale.errors import UnsupportedError
from rescale.flink.advice import CANONICAL
from rescale.flink.keyed.header import KeyedHeader, is_compressed, understood, write_keyed_header
from rescale.flink.keyed.key_group_table import Framing
from rescale.planning.asked.operator_shapes import Shape
from rescale.planning.streams.key_group_owners import owners_of
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.planning.streams.source_files import group_places, source_files
from rescale.planning.values.new_streams import (
    RekeyedHeapGroups,
    RekeyedKeyGroups,
    RekeyedRows,
    RekeyedStream,
    RekeyedTimers,
)
from rescale.planning.values.pieces import Literals, Piece, piece_of
from rescale.planning.values.rekeying import (
    LoggedChanges,
    MaterialisedGroups,
    RekeyedChangelog,
    RekeyedDatabase,
    RekeyedSource,
    Rekeying,
)
from rescale.snapshot.model import Changelog, Database, KeyedStream, Operator


def plan_rekeyed(
    operator: Operator,
    shape: Shape,
    headers: HeaderPlanner,
    literals: Literals,
    key_hash: str | None,
    *,
    timers: Sequence[KeyedStream],
    created: int | None,
    stays_on_heap: bool,
) -> Rekeying | None:
    """Which records are read, and the streams that they come to; None where there is no keyed state.

    `timers` are raw keyed ones that become states like any other. `created` is there if all comes to RocksDB
    directories: what these say of their age, in seconds since 1970. Timers that are in raw keyed state, too, are left
    out of these: a job that keeps its timers on the heap takes none of a directory's. If it `stays_on_heap`, all comes
    to the heap's own format.
    """
    givers = operator.managed_keyed
    _refuse_to_rekey(operator, shape.max_parallelism)
    if not givers and not timers:
        return None
    owners_of(operator, givers)
    owners_of(operator, timers)
    doubled = operator.doubled_timers if created is not None else ()
    left_out = {state.name for one in doubled if one.parsed is not None for state in one.parsed.states}
    header = headers.plan(givers, timers, left_out | operator.left_out)
    compressed = bool(givers) and is_compressed(givers[0].header)
    piece = header.piece if created is None or not compressed else _uncompressed(operator, header.parsed, literals)
    tables = header.id_tables
    sources = [_rekeyed_source(source, tables.get(source.subtask)) for source in operator.keyed]
    sources += [_rekeyed_timers(one, header.timer_id_tables.get(one.subtask), literals) for one in timers]

    def stream(subtask: int, first_key_group: int, key_groups: int) -> RekeyedStream:
        own = {"subtask": subtask, "first_key_group": first_key_group, "key_groups": key_groups}
        if stays_on_heap:
            return RekeyedHeapGroups(**own, header=piece, handle_tag=operator.keyed[0].tag)
        if created is None:
            return RekeyedKeyGroups(**own, header=piece, compressed=compressed)
        return RekeyedRows(**own, header=piece, created=created)

    return Rekeying(
        sources=tuple(sources),
        header=piece,
        compressed=compressed,
        key_hash=key_hash,
        streams=_of_subtasks(shape, stream),
        databases=tuple(_rekeyed_database(one, tables.get(one.subtask)) for one in operator.databases),
        changelogs=tuple(_rekeyed_changelog(one, tables.get(one.subtask), literals) for one in operator.changelogs),
    )


def plan_heap_timers(
    operator: Operator, shape: Shape, headers: HeaderPlanner, literals: Literals, key_hash: str | None
) -> Rekeying | None:
    """The same for timers that stay what they are, raw keyed state; None where there are none."""
    timers = operator.raw_timers
    if not timers:
        return None
    owners_of(operator, timers)
    header = headers.plan((), timers)

    def stream(subtask: int, first_key_group: int, key_groups: int) -> RekeyedStream:
        return RekeyedTimers(
            subtask=subtask,
            header=header.piece,
            first_key_group=first_key_group,
            key_groups=key_groups,
            handle_tag=timers[0].tag,
        )

    return Rekeying(
        sources=tuple(_rekeyed_timers(one, header.timer_id_tables.get(one.subtask), literals) for one in timers),
        header=header.piece,
        compressed=False,
        key_hash=key_hash,
        streams=_of_subtasks(shape, stream),
    )


def _of_subtasks(shape: Shape, stream: Callable[[int, int, int], RekeyedStream]) -> tuple[RekeyedStream, ...]:
    """One for each new subtask, of (subtask, first key group, number of key groups)."""
    ranges = map(shape.key_groups_of, range(shape.parallelism))
    return tuple(stream(i, own.first, len(own)) for i, own in enumerate(ranges))


def _uncompressed(operator: Operator, header: KeyedHeader | None, literals: Literals) -> Piece:
    """The header for RocksDB, which compresses blocks of its own."""
    try:
        return literals.piece(write_keyed_header(replace(understood(header), compressed=False)))
    except UnsupportedError as error:
        raise error.located(operator=operator.label) from None


def _rekeyed_timers(timers: KeyedStream, ids: int | None, literals: Literals) -> RekeyedSource:
    assert timers.parsed is not None
    header = literals.piece(write_keyed_header(timers.parsed))
    return _rekeyed_source(timers, ids)._replace(timers=header)


def _rekeyed_source(source: KeyedStream, ids: int | None) -> RekeyedSource:
    heap = piece_of(source.header_extent) if source.framing is Framing.HEAP else None
    return RekeyedSource(source.extent.file, source.first_key_group, group_places(source), ids, heap=heap)


def _rekeyed_database(database: Database, ids: int | None) -> RekeyedDatabase:
    own = source_files(database)
    return RekeyedDatabase(own.key_groups, database.key_group_sizes, own.files, own.header, ids)


def _rekeyed_changelog(changelog: Changelog, ids: int | None, literals: Literals) -> RekeyedChangelog:
    return RekeyedChangelog(
        (changelog.key_groups.first, changelog.key_groups.last),
        changelog.key_group_sizes,
        tuple(_materialised_groups(part) for part in changelog.base if isinstance(part, KeyedStream)),
        tuple(source_files(part) for part in changelog.base if isinstance(part, Database)),
        tuple(LoggedChanges(piece_of(one.extent), one.offset) for one in changelog.changes),
        changelog.log_size,
        literals.piece(changelog.header),
        ids,
    )


def _materialised_groups(stream: KeyedStream) -> MaterialisedGroups:
    header, is_heap = piece_of(stream.header_extent), stream.framing is Framing.HEAP
    return MaterialisedGroups(stream.extent.file, stream.first_key_group, group_places(stream), header, is_heap)


def _refuse_to_rekey(operator: Operator, new_max_parallelism: int) -> None:
    """Raw keyed state that is no timers is the user's own."""
    if operator.own_raw_keyed and new_max_parallelism != operator.max_parallelism:
        raise UnsupportedError(
            "raw keyed state is in a format of the operator's own, key group by key group",
            operator=operator.label,
            expected=f"no raw keyed state, to change the max parallelism to {new_max_parallelism}",
            found=f"a stream of it in {len(operator.own_raw_keyed)} subtasks",
            advice=f"keep its max parallelism, {operator.max_parallelism}; if these are timers of keys whose "
            f"serializer is not known, {CANONICAL}: there they are state like any other",
        )
