"""Makes a plan from a snapshot and a request. `make_plan` is a pure function: it reads nothing and ignores the time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from msgspec import UNSET

from rescale.flink.metadata.properties import stopped_the_job
from rescale.flink.release_line import kryo_of_writer
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.serializers.user_serializer import user_serializers
from rescale.flink.slot import Slot
from rescale.plan.new_streams import CompactedDirectory, NewDatabase, PlannedStream
from rescale.plan.operator_plan import OperatorPlan
from rescale.plan.pieces import Literals
from rescale.plan.plan import PLAN_FORMAT, Plan
from rescale.plan.prepared_files import SourceFile
from rescale.plan.rekeying import Rekeying
from rescale.plan.work_class import work_class
from rescale.planning.refusals import (
    refuse_changelog,
    refuse_old_rows,
    refuse_state_names,
    refuse_undelimited_entries,
    refuse_unreadable_state,
)
from rescale.planning.request.finished_operators import refuse_finished
from rescale.planning.request.operator_shapes import Shape, new_shapes
from rescale.planning.request.request import Request
from rescale.planning.request.result_files import Files
from rescale.planning.request.result_kind import (
    becomes_databases,
    is_rewritten_by_record,
    keeps_heap_timers,
    stays_on_heap,
)
from rescale.planning.streams.database_streams import DatabasePlanner
from rescale.planning.streams.element_streams import plan_elements
from rescale.planning.streams.inline import InlineBudget
from rescale.planning.streams.key_group_streams import KeyGroupPlanner
from rescale.planning.streams.keyed_headers import HeaderPlanner
from rescale.planning.streams.rekeyed_streams import plan_heap_timers, plan_rekeyed
from rescale.planning.task_sizes import PART_SIZE, part_size_for
from rescale.planning.warnings.databases import reference_warnings
from rescale.planning.warnings.elements import element_warnings
from rescale.planning.warnings.sinks import sink_warnings
from rescale.planning.warnings.warnings import key_hash_warnings, request_warnings, surgery_warnings
from rescale.snapshot.findings import findings
from rescale.snapshot.kafka.offsets import KafkaOffsets
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.surgery import NO_SURGERY, Surgery

CHUNK_SIZE = 4 * 1024 * 1024

_NO_KEY_HASHES: Mapping[str, str] = MappingProxyType({})


def make_plan(
    snapshot: Snapshot,
    request: Request,
    key_hashes: Mapping[str, str] = _NO_KEY_HASHES,
    source_offsets: Sequence[KafkaOffsets] = (),
    surgery: Surgery = NO_SURGERY,
    *,
    copies_ahead: bool = False,
) -> Plan:
    """Return the plan for a snapshot.

    `snapshot` is the snapshot after the `surgery`. `key_hashes` maps operator ids to names of key hashes, as
    `choose_key_hashes` returns them. `source_offsets` are those of the Kafka sources, which the warnings mention.
    With `copies_ahead`, files may be copied into the target before a run claims it. Raises an error that names the
    operator if no plan is possible.
    """
    shapes = new_shapes(snapshot.operators, request)
    refuse_finished(snapshot.operators, shapes, request)
    snapshot.check_complete()
    literals = Literals(snapshot.written_bytes)
    registered_serializers = user_serializers(_readable_serializers(snapshot))
    warnings: list[str] = []
    planner = _OperatorPlanner(snapshot, request, literals, InlineBudget(), warnings, copies_ahead)
    operators = tuple(
        planner.plan(operator, shapes[operator.operator_id], key_hashes.get(operator.operator_id))
        for operator in snapshot.operators
    )
    return Plan(
        format=PLAN_FORMAT,
        source=snapshot.directory,
        target=request.target,
        metadata_sha256=snapshot.metadata_sha256,
        checkpoint_id=snapshot.metadata.checkpoint_id,
        kryo=kryo_of_writer(snapshot.metadata.version),
        files=tuple(SourceFile(uri, pin) for uri, pin in snapshot.files),
        allow_prefixes=request.allow_prefixes,
        literals=literals.bytes(),
        part_size=part_size_for(sum(operator.bytes_of(*Slot) for operator in operators), PART_SIZE),
        chunk_size=CHUNK_SIZE,
        operators=operators,
        warnings=(
            *surgery_warnings(surgery, is_stopped=stopped_the_job(snapshot.metadata.properties)),
            *sink_warnings(snapshot.operators, surgery, request),
            *element_warnings(snapshot.operators, shapes),
            *findings(snapshot, source_offsets),
            *request_warnings(snapshot, shapes, request, source_offsets),
            *key_hash_warnings(snapshot.operators, request.key_hash, key_hashes),
            *(
                f"values of {serializer.snapshot} are read as {serializer.distribution} defines"
                for serializer in registered_serializers
            ),
            *warnings,
            *(reference_warnings(snapshot.directory, operators) if request.files is Files.REFER else ()),
        ),
        serializers=registered_serializers or UNSET,
        surgery=surgery,
        moves=snapshot.moves,
        prepared=copies_ahead,
    )


def _readable_serializers(snapshot: Snapshot) -> Iterator[SerializerSnapshot]:
    """Yield the serializers of all keyed and operator state whose headers can be read."""
    for operator in snapshot.operators:
        keyed_headers = {id(header): header for header in operator.parsed_headers}
        element_headers = {
            id(stream.parsed): stream.parsed for stream in operator.element_streams if stream.parsed is not None
        }
        yield from (header.key_serializer for header in keyed_headers.values())
        states = [state for header in keyed_headers.values() for state in header.states]
        for header in element_headers.values():
            states += header.states
        yield from (serializer for state in states for _, serializer in state.serializers)


class _PlannedKeyedState(NamedTuple):
    """The planned keyed state of an operator: streams of whole key groups, RocksDB directories, or rekeyed records."""

    streams: Sequence[PlannedStream]
    rekeying: Rekeying | None = None
    heap_timers: Rekeying | None = None
    databases: tuple[NewDatabase, ...] = ()
    compacted: tuple[CompactedDirectory, ...] = ()


@dataclass(frozen=True)
class _OperatorPlanner:
    """Plans operators one by one; adds warnings for the user to `warnings`."""

    snapshot: Snapshot
    request: Request
    literals: Literals
    budget: InlineBudget
    warnings: list[str]
    copies_ahead: bool

    def plan(self, operator: Operator, shape: Shape, hash_name: str | None) -> OperatorPlan:
        result_format = self.request.format
        rewrites_records = is_rewritten_by_record(operator, shape, result_format)
        refuse_unreadable_state(operator)
        refuse_changelog(operator, result_format)
        refuse_state_names(operator, result_format)
        refuse_old_rows(operator, result_format)
        if rewrites_records:
            refuse_undelimited_entries(operator)
        header_planner = HeaderPlanner(operator.label, self.literals)
        group_planner = KeyGroupPlanner(operator, shape, header_planner, self.literals, self.budget)
        if rewrites_records:
            keyed_plan = self._plan_records(operator, shape, group_planner, hash_name)
        elif becomes_databases(operator, result_format):
            keyed_plan = self._plan_directories(operator, shape, group_planner)
        else:
            keyed_plan = _PlannedKeyedState(group_planner.streams())
        elements = plan_elements(operator, shape.parallelism, self.literals, self.budget)
        return OperatorPlan(
            operator_id=operator.operator_id,
            label=operator.label,
            parallelism=operator.parallelism,
            new_parallelism=shape.parallelism,
            max_parallelism=operator.max_parallelism,
            new_max_parallelism=shape.max_parallelism,
            work=work_class(operator.max_parallelism, shape.max_parallelism),
            states=_keyed_states(operator),
            id_tables=tuple(header_planner.id_tables),
            streams=(*keyed_plan.streams, *elements),
            rekeying=keyed_plan.rekeying,
            heap_timers=keyed_plan.heap_timers,
            databases=keyed_plan.databases,
            compacted=keyed_plan.compacted,
            cutoffs=operator.cutoffs,
        )

    def _plan_records(
        self, operator: Operator, shape: Shape, group_planner: KeyGroupPlanner, hash_name: str | None
    ) -> _PlannedKeyedState:
        """Plan keyed state whose records are read; raw keyed state moves by key group if the max parallelism stays."""
        result_format = self.request.format
        timers_stay, header_planner = keeps_heap_timers(operator, result_format), group_planner.header_planner
        rekeying = plan_rekeyed(
            operator,
            shape,
            header_planner,
            self.literals,
            hash_name,
            timers=() if timers_stay else operator.heap_timers,
            creation_time=_creation_time(self.snapshot) if becomes_databases(operator, result_format) else None,
            stays_on_heap=stays_on_heap(operator, result_format),
        )
        if shape.max_parallelism == operator.max_parallelism:
            plan_raw_streams = group_planner.raw_streams if timers_stay else group_planner.raw_streams_without_timers
            return _PlannedKeyedState(plan_raw_streams(), rekeying)
        if not timers_stay:
            return _PlannedKeyedState((), rekeying)
        heap_timers = plan_heap_timers(operator, shape, header_planner, self.literals, hash_name)
        return _PlannedKeyedState((), rekeying, heap_timers)

    def _plan_directories(self, operator: Operator, shape: Shape, group_planner: KeyGroupPlanner) -> _PlannedKeyedState:
        """Plan RocksDB directories that are assembled from whole files, or compacted."""
        size_by_file = {number: pin.size for number, (_, pin) in enumerate(self.snapshot.files)}
        referable_sizes = size_by_file if self.request.files is Files.REFER else None
        planner = DatabasePlanner(
            operator,
            shape,
            group_planner.header_planner,
            self.literals,
            self.budget,
            self.warnings,
            referable_sizes,
            copies_ahead=self.copies_ahead,
        )
        planned_databases = planner.plan()
        streams = (*planned_databases.files, *group_planner.raw_streams())
        return _PlannedKeyedState(streams, databases=planned_databases.databases, compacted=planned_databases.compacted)


def _keyed_states(operator: Operator) -> tuple[str, ...]:
    """Return the name and type of each keyed state that is not dropped, each once."""
    staying_states = [state for state in operator.keyed_states if state.name not in operator.dropped_states]
    return tuple(dict.fromkeys(f"{state.name} ({state.state_type})" for state in staying_states))


def _creation_time(snapshot: Snapshot) -> int:
    """Return the time of the snapshot in seconds since 1970; at least 1, because RocksDB reads 0 as "unknown"."""
    return max(int(snapshot.metadata_time.timestamp()), 1) if snapshot.metadata_time else 1
