"""What the user should know about a request, beside what is odd about the snapshot itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rescale.flink.serializers.formulas import KNOWN
from rescale.flink.start import common_parallelism
from rescale.names import first_of
from rescale.planning.asked.operator_shapes import Shape, by_operator
from rescale.planning.asked.request import Files, Format, Request
from rescale.snapshot.discovery import METADATA
from rescale.snapshot.kafka.audit import discovery, spread
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import Surgery
from rescale.storage.locations import name

_SHOWN = 5
"""Operators or partitions that are named."""


def remarks(
    snapshot: Snapshot, shapes: Mapping[str, Shape], request: Request, kafka: Sequence[KafkaOffsets] = ()
) -> Iterator[str]:
    """One sentence for each."""
    if snapshot.directory != request.source.removesuffix(f"/{METADATA}"):
        yield f"of the checkpoints in {request.source} the newest complete one is taken: {name(snapshot.directory)}"
    if any(database.measured for operator in snapshot.operators for database in operator.databases):
        yield (
            "how much of a RocksDB directory lies in each key group is estimated from the keys that SST files begin "
            "and end with, and from the indexes of the largest that span key groups; rows that were overwritten or "
            "deleted count too"
        )
    timers = [operator.label for operator in snapshot.operators if _puts_timers_into_rocksdb(operator, request)]
    if timers:
        yield (
            f"{', '.join(timers)}: the timers come to RocksDB, where a job finds them unless it keeps its own on the "
            "heap (state.backend.rocksdb.timer-service.factory: HEAP); such a job would start without them: ask for a "
            "canonical result (--format canonical) for it"
        )
    changed = [o for o in snapshot.operators if shapes[o.operator_id] != _shape(o)]
    for operator in snapshot.operators:
        if operator.max_parallelism == 1 and changed and operator not in changed:
            yield f"{operator.label} always runs with one subtask (max parallelism 1) and stays as it is"
    yield from _of_parallelism(snapshot.operators, changed, shapes)
    yield from _of_chains(snapshot.operators, changed, shapes)
    maxima = [o for o in changed if shapes[o.operator_id].max_parallelism != o.max_parallelism]
    if maxima:
        yield from _of_maximum(maxima, shapes, request)
    elif changed and not request.surgery and all(map(_aligned, changed)):
        copy = "" if request.files is Files.REFER else "a self-contained copy, "
        yield (
            "only the parallelism changes: Flink can do that itself at restore. What this run adds: a certificate, "
            f"{copy}and no redistribution left to do when the job starts"
        )
    for offsets in kafka:
        parallelism = shapes[offsets.operator.operator_id].parallelism
        yield from map(str, (*spread(offsets, parallelism), *discovery(offsets, parallelism)))


def of_surgery(surgery: Surgery, *, stopped: bool) -> Iterator[str]:
    """What was asked for and may be meant otherwise; `stopped`: the snapshot is a savepoint that ended the job."""
    if surgery.dropped:
        labels = ", ".join(one.label for one in surgery.dropped)
        lost = sum(one.bytes for one in surgery.dropped)
        yield f"{labels}: dropped, as was asked for, and not in the result; {lost:,} bytes of state are lost with that"
    for change in surgery.kafka:
        if change.becomes_source:
            yield (
                f"{change.label}: its offsets become those of a KafkaSource, as was asked for; the job that is started "
                "has one in its place, under the new name, and reads the same topics"
            )
        if change.becomes_source and stopped:
            yield (
                f"{change.label}: the savepoint stopped the job, and a FlinkKafkaConsumer that is told to stop stores "
                "no offsets: these are of the last checkpoint before, and records since then are read twice"
            )
        topics = {one.topic: one.new_topic for one in change.partitions if one.new_topic is not None}
        for topic, new in topics.items():
            yield (
                f"{change.label}: its offsets in {topic} are those in {new} now, as was asked for; that is right where "
                "both have the same records at the same offsets"
            )
        dropped = [f"{one.topic}-{one.partition}" for one in change.partitions if one.dropped]
        if dropped:
            yield (
                f"{change.label}: the offsets of {first_of(dropped, _SHOWN)} are dropped, as was asked for; a job that "
                "still reads such a partition takes it for a new one, and reads it from its earliest record"
            )
    for state in surgery.dropped_states:
        keyed = "; records are read one by one for that, and written anew" if state.elements is None else ""
        yield f"{state.label}: the state {state.name} is dropped, as was asked for, and not in the result{keyed}"


def of_key_hashes(operators: Sequence[Operator], asked: Mapping[str, str], chosen: Mapping[str, str]) -> Iterator[str]:
    """What was asked for of hashes of keys and changes nothing; `RequestError` if it names an operator that is not
    there.

    `asked` is the request's, `chosen` has the hashes by which keys go to new key groups, by operator id.
    """
    named = by_operator(operators, asked)
    for operator in operators:
        operator_id = operator.operator_id
        if operator_id in named and operator_id not in chosen:
            yield f"{operator.label}: none of its keys is hashed, and --key-hash {named[operator_id]} is not needed"
    for_others = asked.get("", KNOWN)
    if for_others != KNOWN and all(name == KNOWN for one, name in chosen.items() if one not in named):
        yield f"no keys are hashed of which nobody knows how, and --key-hash {for_others} is not needed"


def _puts_timers_into_rocksdb(operator: Operator, request: Request) -> bool:
    """Whether they were in canonical state, which does not say where the job keeps them; raw keyed ones stay so."""
    headers = [stream.parsed for stream in operator.keyed if stream.parsed is not None]
    listed = any(state.state_type == "TIMERS" for header in headers for state in header.states)
    return request.format is Format.ROCKSDB and listed and not operator.doubled_timers


def _of_parallelism(
    operators: Sequence[Operator], changed: Sequence[Operator], shapes: Mapping[str, Shape]
) -> Iterator[str]:
    """What does not have the parallelism that the job is started with (`start_of`)."""
    common = common_parallelism(list(shapes.values()))
    others = [
        f"{operator.label} has {shape.parallelism}"
        for operator, shape in ((operator, shapes[operator.operator_id]) for operator in operators)
        if shape.parallelism != common and shape.max_parallelism != 1
    ]
    if others and any(shapes[operator.operator_id].parallelism != operator.parallelism for operator in changed):
        yield (
            f"not all operators have parallelism {common}, with which the job is started: {first_of(others, _SHOWN)}. "
            "Set that in the job's code, or Flink redistributes the state at the restore"
        )


def _of_chains(
    operators: Sequence[Operator], changed: Sequence[Operator], shapes: Mapping[str, Shape]
) -> Iterator[str]:
    """A chain has the max parallelism of its first operator (`StreamingJobGraphGenerator.createJobVertex`)."""
    alone = [operator.label for operator in operators if operator.max_parallelism == 1]
    if alone and any(shapes[operator.operator_id].parallelism == 1 for operator in changed):
        yield (
            f"what has one subtask is chained with an operator before it that always runs with one "
            f"({first_of(alone, _SHOWN)}): Flink then takes max parallelism 1 for both, and refuses the state of what "
            "had another one, from this result as from any snapshot. Where that is so in the job, keep them apart "
            "(disableChaining), or ask for two subtasks"
        )


def _of_maximum(changed: list[Operator], shapes: Mapping[str, Shape], request: Request) -> Iterator[str]:
    old = sorted({operator.max_parallelism for operator in changed})
    new = sorted({shapes[operator.operator_id].max_parallelism for operator in changed})
    all_new = {shape.max_parallelism for shape in shapes.values()} - {1}
    start = (
        f"start it with pipeline.max-parallelism {_either(new)}"
        if len(all_new) == 1
        else f"set no pipeline.max-parallelism: operators have different ones ({_either(sorted(all_new))}), and Flink "
        "takes them from the result"
    )
    yield (
        f"a job that sets its max parallelism ({_either(old)}) in its code or configuration refuses the result: take "
        f"setMaxParallelism out, and {start}"
    )
    if any(request.max_parallelism):  # by name
        yield (
            "operators that are chained with one another need the same max parallelism, and a snapshot does not say "
            "which are: --max-parallelism M, for all of them, is safe"
        )


def _either(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))


def _shape(operator: Operator) -> Shape:
    return Shape(operator.parallelism, operator.max_parallelism)


def _aligned(operator: Operator) -> bool:
    """Whether every subtask holds just the keyed state of its key groups."""
    holders = (*operator.managed_keyed, *operator.raw_keyed)
    return all(holder.key_groups == operator.key_groups_of(holder.subtask) for holder in holders)
