"""Warnings about a request; `snapshot.findings` has the warnings about the snapshot itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rescale.flink.keyed.ttl.last_access import format_time
from rescale.flink.keys.pojo_formulas import KNOWN_HASH
from rescale.flink.start import common_parallelism
from rescale.plan.mixed_maxima import mixed_maxima, mixed_maxima_sentence
from rescale.planning.request.operator_shapes import Shape, by_operator
from rescale.planning.request.request import Request
from rescale.planning.request.result_files import Files, Format
from rescale.planning.warnings.chains import generated_id_warnings, shared_maximum_warnings
from rescale.snapshot.kafka.audit import discovery_findings, spread_findings
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.keyed_state import Changelog, Database, KeyedStream
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.reading.discovery import METADATA
from rescale.snapshot.surgery import Surgery
from rescale.storage.locations import name
from rescale.text.names import first_of

_MOST_SHOWN = 5
"""Largest number of operators or partitions that a warning names."""


def request_warnings(
    snapshot: Snapshot, shapes: Mapping[str, Shape], request: Request, source_offsets: Sequence[KafkaOffsets] = ()
) -> Iterator[str]:
    """Yield warnings about the new shapes, the format and the files of the result."""
    if snapshot.directory != request.source.removesuffix(f"/{METADATA}"):
        yield f"the source is the newest complete checkpoint in {request.source}: {name(snapshot.directory)}"
    if any(database.measured_sizes for operator in snapshot.operators for database in operator.databases):
        yield (
            "the bytes of RocksDB state in each key group are estimates, from the first and last keys of SST files and "
            "from the indexes of the largest files that span key groups; overwritten and deleted rows count too"
        )
    if any(operator.has_changelog for operator in snapshot.operators):
        claim_text = "" if request.files is Files.REFER else "in CLAIM mode (-restoreMode claim), or "
        yield (
            f"the job has a changelog: start it {claim_text}without its changelog. After a start in NO_CLAIM mode, "
            "which is Flink's default, a job with a changelog can make no checkpoint"
        )
    timer_labels = [operator.label for operator in snapshot.operators if _puts_timers_into_rocksdb(operator, request)]
    if timer_labels:
        yield (
            f"{', '.join(timer_labels)}: the timers are written into RocksDB. A job that keeps its timers on the heap "
            "(state.backend.rocksdb.timer-service.factory: HEAP) would start without them: ask for a canonical result "
            "for such a job"
        )
    changed_operators = [
        o for o in snapshot.operators if shapes[o.operator_id] != Shape(o.parallelism, o.max_parallelism)
    ]
    for operator in snapshot.operators:
        if operator.max_parallelism == 1 and changed_operators and operator not in changed_operators:
            yield (
                f"{operator.label} keeps max parallelism 1: Flink sets it for operators that can only have one subtask"
            )
    labels = [operator.label for operator in changed_operators if operator.max_parallelism == 1]
    if labels:
        yield (
            f"{first_of(labels, _MOST_SHOWN)}: max parallelism 1 is changed because the request says so. If Flink "
            "itself set it (windowAll, SQL singletons), the job refuses the result. All keys are in one key group, so "
            "nothing in the snapshot confirms how they hash: the hash of their type is used without proof"
        )
    yield from _parallelism_warnings(snapshot.operators, changed_operators, shapes)
    yield from shared_maximum_warnings(snapshot.operators, changed_operators, shapes)
    yield from generated_id_warnings(snapshot, shapes)
    operators_with_new_maximum = [
        o for o in changed_operators if shapes[o.operator_id].max_parallelism != o.max_parallelism
    ]
    if operators_with_new_maximum:
        yield from _max_parallelism_warnings(operators_with_new_maximum, shapes)
        changes = ((o.max_parallelism, shapes[o.operator_id].max_parallelism) for o in snapshot.operators)
        if new_maxima := mixed_maxima(changes):
            yield mixed_maxima_sentence(new_maxima)
    elif changed_operators and not request.surgery and all(map(_holds_assigned_key_groups, changed_operators)):
        copy_text = "" if request.files is Files.REFER else "a self-contained copy, "
        yield (
            "only the parallelism changes, which Flink can do itself at restore. This run adds a certificate, "
            f"{copy_text}and a start of the job without redistribution"
        )
    for offsets in source_offsets:
        parallelism = shapes[offsets.operator.operator_id].parallelism
        yield from map(str, (*spread_findings(offsets, parallelism), *discovery_findings(offsets, parallelism)))


def surgery_warnings(surgery: Surgery, *, is_stopped: bool) -> Iterator[str]:
    """Yield a warning for each declared change that the user might not have intended.

    `is_stopped` tells whether the snapshot is a savepoint that stopped the job.
    """
    if surgery.dropped:
        labels_text = ", ".join(operator.label for operator in surgery.dropped)
        dropped_bytes = sum(operator.bytes for operator in surgery.dropped)
        yield f"{labels_text}: dropped, as requested; {dropped_bytes:,} bytes of state are not in the result"
    for change in surgery.kafka:
        if change.becomes_source:
            yield (
                f"{change.label}: its offsets become those of a KafkaSource, as requested. The job to start must have "
                "a KafkaSource in its place, under the new name, that reads the same topics"
            )
        if change.becomes_source and is_stopped:
            yield (
                f"{change.label}: the savepoint stopped the job, and a FlinkKafkaConsumer stores no offsets when it is "
                "stopped. Its offsets are from the previous checkpoint, so later records are read twice"
            )
        new_name_by_topic = {
            partition.topic: partition.new_topic for partition in change.partitions if partition.new_topic is not None
        }
        for topic, new_topic in new_name_by_topic.items():
            yield (
                f"{change.label}: its offsets in {topic} become offsets in {new_topic}, as requested. This is only "
                "right if both topics have the same records at the same offsets"
            )
        dropped_names = [
            f"{partition.topic}-{partition.partition}" for partition in change.partitions if partition.dropped
        ]
        if dropped_names:
            yield (
                f"{change.label}: the offsets of {first_of(dropped_names, _MOST_SHOWN)} are dropped, as requested. "
                "A job that still reads such a partition treats it as a new one, and reads it from its earliest record"
            )
    for restarted in surgery.restarted:
        reread_clause = "" if restarted.assigned else ", and a source reads their input again"
        yield (
            f"{restarted.label}: its finished subtasks run again, as requested{reread_clause}. Flink refuses the "
            "result if an operator that is chained to it, or comes after it, still counts as finished: restart that "
            "one, too"
        )
    for state in surgery.dropped_states:
        keyed_clause = "; for this, all records are read and rewritten one by one" if state.elements is None else ""
        yield f"{state.label}: the state {state.name} is dropped, as requested, and is not in the result{keyed_clause}"
    for rows in surgery.old_rows:
        yield (
            f"{rows.label}: rows of the state {rows.name} last accessed at or before {format_time(rows.until)} are "
            "left out, as requested. Their number is not known before the run, which reads all records of the operator "
            "one by one, and rewrites the others"
        )


def key_hash_warnings(
    operators: Sequence[Operator], requested_hashes: Mapping[str, str], chosen_hashes: Mapping[str, str]
) -> Iterator[str]:
    """Yield a warning for each requested key hash that is not needed.

    `requested_hashes` maps operators to hashes. `chosen_hashes` are the hashes that `choose_key_hashes` returns, by
    operator id. Raises `RequestError` if `requested_hashes` names an operator that is not in the snapshot.
    """
    requested_by_id = by_operator(operators, requested_hashes)
    for operator in operators:
        operator_id = operator.operator_id
        if operator_id in requested_by_id and operator_id not in chosen_hashes:
            yield f"{operator.label}: its keys are not hashed, so the hash {requested_by_id[operator_id]} is not needed"
    hash_for_others = requested_hashes.get("", KNOWN_HASH)
    if hash_for_others != KNOWN_HASH and all(
        name == KNOWN_HASH for operator_id, name in chosen_hashes.items() if operator_id not in requested_by_id
    ):
        yield f"every key that is hashed has a known hash, so the hash {hash_for_others} is not needed"


def _puts_timers_into_rocksdb(operator: Operator, request: Request) -> bool:
    """Return whether timers of canonical or heap state become timers in RocksDB; raw keyed timers stay as they are.

    Canonical state does not say where a job keeps its timers.
    """
    holders: list[KeyedStream | Changelog] = [*operator.keyed]
    holders += (
        changelog for changelog in operator.changelogs if not any(isinstance(part, Database) for part in changelog.base)
    )
    headers = [holder.parsed for holder in holders if holder.parsed is not None]
    lists_timers = any(state.state_type == "TIMERS" for header in headers for state in header.states)
    return request.format is Format.ROCKSDB and lists_timers and not operator.duplicate_timers


def _parallelism_warnings(
    operators: Sequence[Operator], changed_operators: Sequence[Operator], shapes: Mapping[str, Shape]
) -> Iterator[str]:
    """Yield a warning if the job is started with a parallelism that some operators do not have (`start_of`)."""
    job_parallelism = common_parallelism(list(shapes.values()))
    other_parallelisms = [
        f"{operator.label} has {shape.parallelism}"
        for operator, shape in ((operator, shapes[operator.operator_id]) for operator in operators)
        if shape.parallelism != job_parallelism and shape.max_parallelism != 1
    ]
    if other_parallelisms and any(
        shapes[operator.operator_id].parallelism != operator.parallelism for operator in changed_operators
    ):
        yield (
            f"the job is started with parallelism {job_parallelism}, which not all operators have: "
            f"{first_of(other_parallelisms, _MOST_SHOWN)}. Set their parallelism in the job's code, or Flink "
            "redistributes their state at restore"
        )


def _max_parallelism_warnings(changed_operators: list[Operator], shapes: Mapping[str, Shape]) -> Iterator[str]:
    old_maxima = sorted({operator.max_parallelism for operator in changed_operators})
    new_maxima = sorted({shapes[operator.operator_id].max_parallelism for operator in changed_operators})
    all_new_maxima = {shape.max_parallelism for shape in shapes.values()} - {1}
    start_advice = (
        f"start it with pipeline.max-parallelism {_joined_by_or(new_maxima)}"
        if len(all_new_maxima) == 1
        else f"do not set pipeline.max-parallelism: operators have different ones "
        f"({_joined_by_or(sorted(all_new_maxima))}), which Flink reads from the result"
    )
    yield (
        f"a job that sets its max parallelism ({_joined_by_or(old_maxima)}) in its code or configuration refuses the "
        f"result: remove setMaxParallelism, and {start_advice}"
    )


def _joined_by_or(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))


def _holds_assigned_key_groups(operator: Operator) -> bool:
    """Return whether every subtask holds keyed state of exactly the key groups that Flink assigns to it."""
    holders = (*operator.managed_keyed, *operator.raw_keyed)
    return all(holder.key_groups == operator.key_groups_of(holder.subtask) for holder in holders)
