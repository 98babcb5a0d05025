"""What must hold between a source and a result before a byte of state is compared.

Every key group of [0, max parallelism) that the source holds is in the result once and with the right subtask; the
stored parallelism agrees with the layout (at equal parallelism Flink does not look); states, modes and numbers of
elements agree; nothing refers outside the target; what is not moved is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rescale.errors import IntegrityError, RequestError
from rescale.execution.validation.headers import ElementHeaders, KeyedHeaders, different
from rescale.flink.givers import Givers
from rescale.flink.keyed.heap.heap import empty_group
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode, HandleTag
from rescale.flink.metadata.properties import savepoint_properties
from rescale.flink.slot import Slot
from rescale.planning.asked.operator_shapes import Shape
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import Database, DatabaseFile, ElementStream, KeyedStream, Operator, Snapshot
from rescale.storage.files.temporary_files import is_temporary
from rescale.storage.locations import contains, join, name
from rescale.target.certificate import Certificate


class GroupPair(NamedTuple):
    """A key group in the source and in the result; `table` translates the source's state ids where they differ.

    `filler` is the block without entries that must stand in the result where the source has no entry (heap framing).
    """

    key_group: int
    source: Extent | None
    result: Extent
    table: tuple[int, ...] | None = None
    compressed: bool = False
    filler: bytes = b""


def check_metadata(source: Snapshot, result: Snapshot) -> None:
    """Everything in `_metadata` that a rescale leaves alone."""
    ours, theirs = result.metadata, source.metadata
    check_equal("metadata version", theirs.version, ours.version)
    check_equal("checkpoint id", theirs.checkpoint_id, ours.checkpoint_id)
    check_equal("master states", theirs.masters, ours.masters)
    canonical = not any(operator.databases for operator in result.operators) and all(
        s.tag == HandleTag.SAVEPOINT_KEY_GROUPS for operator in result.operators for s in operator.keyed
    )
    properties = savepoint_properties(canonical=canonical) if theirs.properties else b""
    if ours.properties != properties:
        raise IntegrityError(
            "the result does not call itself the savepoint that it is",
            expected=f"the properties of a {'canonical' if canonical else 'native'} savepoint",
            found=f"those of {result.type.name}, or damaged ones",
        )
    if result.missing:
        raise IntegrityError(
            "files of the result are missing", path=result.missing[0], found=f"{len(result.missing)} in all"
        )
    check_equal(
        "operators",
        [o.operator_id for o in source.operators],
        [o.operator_id for o in result.operators],
    )
    for old, new in zip(source.operators, result.operators, strict=True):
        for field in ("name", "uid", "coordinator", "fully_finished"):
            check_equal(field.replace("_", " "), getattr(old.entry, field), getattr(new.entry, field), old.label)
        if old.max_parallelism == 1:  # for ever: Flink forces it on what cannot be parallel
            check_equal("max parallelism", 1, new.max_parallelism, old.label)
        check_equal("finished subtasks", _finished(old), _finished(new), old.label)
        if new.other_keyed or new.changelogs or new.has_channel_state:
            raise IntegrityError("state of a kind that is never written", operator=old.label)


def check_candidate(result: Snapshot, sha256: str) -> None:
    """That the metadata reads as it was put: nobody else has what would tell."""
    if result.metadata_sha256 != sha256:
        raise IntegrityError(
            "the candidate does not read as it was put",
            path=result.metadata_uri,
            expected=f"SHA-256 {sha256}",
            found=f"SHA-256 {result.metadata_sha256}",
            advice="another run of this plan may be at work: run the same command again when it has ended",
        )


def check_planned(result: Snapshot, shapes: Mapping[str, Shape]) -> None:
    """`RequestError` if what is published in the target has not the planned shapes, by operator id: it is another's."""
    for operator, expected, found in _other_shapes(result, shapes):
        raise RequestError(
            "the target holds another published result",
            path=result.metadata_uri,
            operator=operator.label,
            expected=expected,
            found=found,
            advice="name another target",
        )


def check_certified(result: Snapshot, certificate: Certificate) -> None:
    """That the metadata is the one that was certified: its bytes, and first the shape of every operator."""
    certified = {o.operator_id: Shape(o.parallelism, o.max_parallelism) for o in certificate.operators}
    for operator, expected, found in _other_shapes(result, certified):
        raise IntegrityError(
            "an operator has not the shape that was certified",
            path=result.metadata_uri,
            operator=operator.label,
            expected=expected,
            found=found,
        )
    if certificate.candidate_sha256 != result.metadata_sha256:
        raise IntegrityError(
            "the metadata of the result is not what was certified",
            path=result.metadata_uri,
            expected=f"SHA-256 {certificate.candidate_sha256}",
            found=f"SHA-256 {result.metadata_sha256}",
            advice="it was changed after it was published: rescale the source again, to another target",
        )


def _other_shapes(result: Snapshot, shapes: Mapping[str, Shape]) -> Iterator[tuple[Operator, str, str]]:
    """Who has another shape than is said, with both in words."""
    for operator in result.operators:
        expected, found = shapes.get(operator.operator_id), Shape(operator.parallelism, operator.max_parallelism)
        if expected != found:
            yield operator, _in_words(expected), _in_words(found)


def _in_words(shape: Shape | None) -> str:
    return f"parallelism {shape.parallelism}, max parallelism {shape.max_parallelism}" if shape else "no such operator"


def check_references(source: Snapshot, result: Snapshot) -> None:
    """Whatever lies outside of the target is a file of the source, in the version that was seen there."""
    known = dict(source.files)
    for uri, pin in result.files[1:]:
        if not contains(result.directory, uri) and not pin.is_of(known.get(uri)):
            raise IntegrityError(
                "the result refers to a file that is none of the source's",
                path=uri,
                expected=known.get(uri) or f"a file in {result.directory}",
                found=pin,
            )


def check_directory(result: Snapshot, there: Sequence[str]) -> None:
    """`there` is all that the target holds: Flink removes a claimed savepoint's directory only if it is empty then.

    Temporary files go before a result is published.
    """
    ours = {join(result.directory, "_metadata"), *(uri for uri, _ in result.files)}
    surplus = [uri for uri in there if uri not in ours and not is_temporary(name(result.directory), name(uri))]
    if surplus:
        raise IntegrityError(
            "the target holds files that belong to no state",
            path=result.directory,
            expected=f"{len(ours)} files at most",
            found=f"{len(surplus)} others, such as {surplus[0]}",
            advice="move them elsewhere",
        )


def pair_key_groups(old: Operator, new: Operator, slot: Slot) -> list[GroupPair]:
    """Every key group of the operator with its two places, in the order of the result's streams."""
    sources = old.keyed if slot is Slot.KEYED else old.raw_keyed
    results = new.keyed if slot is Slot.KEYED else new.raw_keyed
    owners = {g: (s, extent) for s in sources for g, extent in s.present_groups}
    pairs: dict[int, GroupPair] = {}
    givers, headers = Givers(sources), KeyedHeaders(old.label)
    for stream in results:
        own = new.key_groups_of(stream.subtask)
        check_equal(f"key groups of subtask {stream.subtask}", own, stream.key_groups, old.label)
        tables = headers.compare(different(givers.of(own)), stream) if slot is Slot.KEYED else {}
        for key_group, extent in stream.present_groups:
            if key_group in pairs:
                raise IntegrityError(f"key group {key_group} is there twice", operator=old.label)
            owner, source = owners.get(key_group, (None, None))
            if owner is None or source is None or (owner.header != stream.header and owner.has_no_entry):
                filler = _filler(old.label, key_group, stream)
                pairs[key_group] = GroupPair(key_group, None, extent, filler=filler)
                continue
            compressed = stream.parsed is not None and stream.parsed.compressed
            pairs[key_group] = GroupPair(key_group, source, extent, tables.get(owner.header), compressed)
    lost = owners.keys() - pairs.keys()
    if lost:
        raise IntegrityError(
            f"key group {min(lost)} is not in the result",
            operator=old.label,
            expected=f"{len(owners)} key groups with state",
            found=f"{len(lost)} missing",
        )
    return list(pairs.values())


def is_compared_by_record(old: Operator, new: Operator) -> bool:
    """Whether keyed state is compared record by record: key groups changed, or the kind, or directories were cut."""
    if old.max_parallelism != new.max_parallelism or old.kinds != new.kinds:
        return True
    if old.left_out or (old.raw_timers and not new.raw_timers):
        return True
    if old.heap_streams and _lists_other_states(old, new):
        return True
    return bool(old.databases) and _directories(old) != _directories(new)


def _lists_other_states(old: Operator, new: Operator) -> bool:
    """Whether a heap stream of the result cannot be made of whole key groups of the source."""
    givers = Givers([stream for stream in old.heap_streams if not stream.has_no_entry])
    pairs = ((giver, stream) for stream in new.heap_streams for giver in givers.of(stream.key_groups))
    return any(giver.state_names != stream.state_names for giver, stream in pairs)


def check_rekeyed(old: Operator, new: Operator) -> None:
    """The keyed state of an operator whose records moved one by one; whose records are where is compared by digest."""
    givers, takers = old.managed_keyed, new.managed_keyed
    timers = () if new.raw_timers else old.heap_timers
    doubled = old.doubled_timers if new.raw_timers else ()
    left_out = {state.name for one in doubled if one.parsed is not None for state in one.parsed.states}
    near, headers = Givers(givers), KeyedHeaders(old.label, timers, left_out | old.left_out)
    subtasks = list(range(new.parallelism)) if givers or timers else []
    same_groups = old.max_parallelism == new.max_parallelism
    if old.databases and new.databases and same_groups:
        subtasks = [subtask for subtask in subtasks if near.of(new.key_groups_of(subtask))]
    check_equal("subtasks with keyed state", subtasks, [stream.subtask for stream in takers], old.label)
    if not same_groups:
        raw_keyed = (*old.own_raw_keyed, *new.own_raw_keyed)
        check_equal("subtasks with raw keyed state", [], [stream.subtask for stream in raw_keyed], old.label)
    all_givers = different(givers)
    for stream in takers:
        own = new.key_groups_of(stream.subtask)
        check_equal(f"key groups of subtask {stream.subtask}", own, stream.key_groups, old.label)
        kept = Framing.HEAP if old.heap_streams and new.heap_streams else Framing.CANONICAL
        check_equal(f"framing of subtask {stream.subtask}", kept, stream.framing, old.label)
        headers.compare(different(near.of(own)) if new.databases and same_groups else all_givers, stream)


class FilePair(NamedTuple):
    """A file of the RocksDB directory of a new subtask, by its name there, and what it is in the source."""

    subtask: int
    name: str
    source: Extent
    result: Extent


def _directories(operator: Operator) -> list[tuple[object, ...]]:
    return [(d.subtask, d.key_groups, sorted(file.name for file in d.files)) for d in operator.databases]


def pair_database_files(old: Operator, new: Operator) -> list[FilePair]:
    """Every file of the operator's databases, and the streams that describe their states."""
    check_equal("RocksDB directories", _directories(old), _directories(new), old.label)
    for database in new.databases:
        own = new.key_groups_of(database.subtask)
        check_equal(f"key groups of subtask {database.subtask}", own, database.key_groups, old.label)
    return [
        FilePair(ours.subtask, name, source, result)
        for theirs, ours in zip(old.databases, new.databases, strict=True)
        for name, source, result in (
            (f"the states of subtask {theirs.subtask}", theirs.header_extent, ours.header_extent),
            *((one.name, one.extent, two.extent) for one, two in zip(*_by_name(theirs, ours), strict=True)),
        )
    ]


def _by_name(*databases: Database) -> Iterator[list[DatabaseFile]]:
    return (sorted(database.files) for database in databases)


def check_elements(old: Operator, new: Operator, slot: Slot) -> None:
    """States, modes and headers of operator state; whose bytes are where is compared by digest."""
    sources, results = old.elements_in(slot), new.elements_in(slot)
    check_equal(f"{slot} states", _modes(sources), _modes(results), old.label)
    same_parallelism = old.parallelism == new.parallelism
    unmoved = same_parallelism or not sources
    expected = [stream.subtask for stream in sources] if unmoved else list(range(new.parallelism))
    check_equal(f"subtasks with {slot} state", expected, [stream.subtask for stream in results], old.label)
    by_subtask: dict[int, list[ElementStream]] = defaultdict(list)
    for source in sources:
        by_subtask[source.subtask].append(source)
    headers, all_givers = ElementHeaders(old.label), different(sources)
    for stream in results:
        headers.compare(different(by_subtask[stream.subtask]) if same_parallelism else all_givers, stream)


def broadcast_states(streams: Sequence[ElementStream]) -> Iterator[tuple[str, int]]:
    """(state, subtask) of every copy of a broadcast state."""
    for stream in streams:
        for state in stream.states:
            if state.mode is DistributionMode.BROADCAST and state.elements:
                yield state.name, stream.subtask


def _finished(operator: Operator) -> list[int]:
    return sorted(subtask.index for subtask in operator.entry.subtasks if subtask.finished)


def _modes(streams: Sequence[ElementStream]) -> list[tuple[str, str]]:
    return sorted({(state.name, state.mode.name) for stream in streams for state in stream.states})


def _filler(label: str, key_group: int, stream: KeyedStream) -> bytes:
    """The only thing that may stand where the source has nothing: a heap block without entries."""
    if stream.framing is not Framing.HEAP or stream.parsed is None:
        raise IntegrityError(f"key group {key_group} is not in the source", operator=label)
    return empty_group(key_group, stream.parsed)


def check_equal(what: str, expected: object, found: object, label: str | None = None) -> None:
    if expected != found:
        raise IntegrityError(f"{what}: result and source differ", operator=label, expected=expected, found=found)
