"""Plans keyed state whose records are read: lists the records to read, and the new streams with their headers.

At another max parallelism every record may get another key group, so the plan cannot know the new place of any record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rescale.flink.advice import RESCALE_CANONICAL_SAVEPOINT
from rescale.flink.keyed.header import KeyedHeader, is_compressed, require_header, write_keyed_header
from rescale.plan.new_streams import RekeyedDirectory, RekeyedHeapGroups, RekeyedKeyGroups, RekeyedStream, RekeyedTimers
from rescale.plan.pieces import Literals, Piece, piece_of
from rescale.plan.rekeying import PlannedSource, Rekeying
from rescale.planning.request.operator_shapes import Shape
from rescale.planning.streams.key_group_owners import owners_of
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.snapshot.keyed_state import Changelog, Database, KeyedStateHolder, KeyedStream
from rescale.snapshot.model import Operator
from rescale.snapshot.places import changelog_place, database_place, stream_place
from rescale.text.errors import UnsupportedError, located


def plan_rekeyed(
    operator: Operator,
    shape: Shape,
    header_planner: HeaderPlanner,
    literals: Literals,
    hash_name: str | None,
    *,
    timers: Sequence[KeyedStream],
    creation_time: int | None,
    stays_on_heap: bool,
) -> Rekeying | None:
    """Return the records to read and the new streams of keyed state; None if there is no keyed state.

    `timers` are raw keyed timers that become states like any other. `creation_time` is the creation time of RocksDB
    directories, in seconds since 1970; None if the result has none. Timers that are also in raw keyed state are not
    written into such directories, because a job with timers on the heap does not read timers from RocksDB.
    `stays_on_heap` selects the native format of the hashmap backend for the result.
    """
    old_holders = operator.managed_keyed
    _refuse_to_rekey(operator, shape.max_parallelism, timers)
    if not old_holders and not timers:
        return None
    owners_of(operator, old_holders)
    owners_of(operator, timers)
    omitted_states = operator.dropped_states | (operator.duplicate_states if creation_time is not None else frozenset())
    header = header_planner.plan(old_holders, timers, omitted_states)
    compressed = bool(old_holders) and is_compressed(old_holders[0].header)
    header_piece = (
        header.piece
        if creation_time is None or not compressed
        else _uncompressed_header(operator, header.parsed, literals)
    )
    id_table_numbers = header.id_table_numbers
    sources = (
        *(_database_source(holder, id_table_numbers.get(holder.subtask)) for holder in operator.databases),
        *(_changelog_source(holder, id_table_numbers.get(holder.subtask), literals) for holder in operator.changelogs),
        *(_stream_source(holder, id_table_numbers.get(holder.subtask)) for holder in operator.keyed),
        *(_timer_source(holder, header.timer_id_table_numbers.get(holder.subtask), literals) for holder in timers),
    )

    def new_stream(subtask: int, first_key_group: int, key_groups: int) -> RekeyedStream:
        common_fields = {"subtask": subtask, "first_key_group": first_key_group, "key_groups": key_groups}
        if stays_on_heap:
            return RekeyedHeapGroups(**common_fields, header=header_piece, handle_tag=operator.keyed[0].handle_tag)
        if creation_time is None:
            return RekeyedKeyGroups(**common_fields, header=header_piece, compressed=compressed)
        return RekeyedDirectory(**common_fields, header=header_piece, created=creation_time)

    return Rekeying(
        sources=sources,
        header=header_piece,
        number_of_states=header.number_of_states,
        compressed=compressed,
        key_hash=hash_name,
        streams=_streams_of_subtasks(shape, new_stream),
    )


def plan_heap_timers(
    operator: Operator, shape: Shape, header_planner: HeaderPlanner, literals: Literals, hash_name: str | None
) -> Rekeying | None:
    """Return the records to read and the new streams of timers that stay raw keyed state; None if there are none."""
    timers = operator.raw_timers
    if not timers:
        return None
    owners_of(operator, timers)
    header = header_planner.plan((), timers)

    def new_stream(subtask: int, first_key_group: int, key_groups: int) -> RekeyedStream:
        return RekeyedTimers(
            subtask=subtask,
            header=header.piece,
            first_key_group=first_key_group,
            key_groups=key_groups,
            handle_tag=timers[0].handle_tag,
        )

    return Rekeying(
        sources=tuple(
            _timer_source(stream, header.timer_id_table_numbers.get(stream.subtask), literals) for stream in timers
        ),
        header=header.piece,
        number_of_states=header.number_of_states,
        compressed=False,
        key_hash=hash_name,
        streams=_streams_of_subtasks(shape, new_stream),
    )


def _streams_of_subtasks(
    shape: Shape, new_stream: Callable[[int, int, int], RekeyedStream]
) -> tuple[RekeyedStream, ...]:
    """Return a stream for each new subtask; `new_stream` takes (subtask, first key group, number of key groups)."""
    ranges = map(shape.key_groups_of, range(shape.parallelism))
    return tuple(new_stream(subtask, key_groups.first, len(key_groups)) for subtask, key_groups in enumerate(ranges))


def _uncompressed_header(operator: Operator, header: KeyedHeader | None, literals: Literals) -> Piece:
    """Return the header without compression, because RocksDB compresses its own blocks."""
    with located(operator=operator.label):
        return literals.add(write_keyed_header(replace(require_header(header), compressed=False)))


def _stream_source(stream: KeyedStream, id_table_number: int | None) -> PlannedSource:
    return PlannedSource(stream_place(stream, piece_of(stream.header_extent)), id_table_number)


def _timer_source(timers: KeyedStream, id_table_number: int | None, literals: Literals) -> PlannedSource:
    assert timers.parsed is not None
    return PlannedSource(stream_place(timers, literals.add(write_keyed_header(timers.parsed))), id_table_number)


def _database_source(database: Database, id_table_number: int | None) -> PlannedSource:
    place = database_place(database, piece_of(database.header_extent))
    return PlannedSource(place, id_table_number, database.key_group_sizes)


def _changelog_source(changelog: Changelog, id_table_number: int | None, literals: Literals) -> PlannedSource:
    def header_of(holder: KeyedStateHolder) -> Piece:
        return literals.add(holder.header) if isinstance(holder, Changelog) else piece_of(holder.header_extent)

    return PlannedSource(changelog_place(changelog, header_of), id_table_number, changelog.key_group_sizes)


def _refuse_to_rekey(operator: Operator, new_max_parallelism: int, timers: Sequence[KeyedStream]) -> None:
    """Raise `UnsupportedError` for raw keyed state that would have to be read, but cannot be.

    At another max parallelism this is all raw keyed state other than timers: only the operator knows its format. It is
    also `hidden_timers`, which cannot be delimited, if the max parallelism changes or timers become states.
    """
    if operator.hidden_timers and (timers or new_max_parallelism != operator.max_parallelism):
        raise UnsupportedError(
            "raw keyed timers have no lengths, and timers of this operator contain objects of a subclass of their "
            "POJO, which cannot be delimited",
            operator=operator.label,
            found=f"such timers in subtask {operator.hidden_timers[0].subtask}",
            advice=f"keep the max parallelism and the format of the state, or {RESCALE_CANONICAL_SAVEPOINT}, in which "
            "timers have lengths",
        )
    if operator.raw_keyed_without_timers and new_max_parallelism != operator.max_parallelism:
        raise UnsupportedError(
            "the operator has raw keyed state in a format of its own, whose records cannot get other key groups",
            operator=operator.label,
            expected=f"no raw keyed state, to change the max parallelism to {new_max_parallelism}",
            found=f"raw keyed state in {len(operator.raw_keyed_without_timers)} subtasks",
            advice=f"keep its max parallelism, {operator.max_parallelism}; if the raw keyed state is timers of keys "
            f"with an unknown serializer, {RESCALE_CANONICAL_SAVEPOINT}, in which timers are state like any other",
        )
