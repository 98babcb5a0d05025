"""(snapshot, request) → plan. Pure: nothing is read, nothing depends on the time."""

from __future__ import annotations

from rescale.errors import SnapshotError, UnsupportedError
from rescale.flink.key_groups import key_group_range
from rescale.planning.elements import plan_elements
from rescale.planning.findings import findings
from rescale.planning.keyed import KeyedPlanner
from rescale.planning.plan import FORMAT, OperatorPlan, Plan, SourceFile, WorkClass
from rescale.planning.request import Request
from rescale.planning.shape import new_parallelisms
from rescale.planning.snapshot import Operator, Snapshot
from rescale.planning.streams import InlineBudget, Literals

PART_SIZE = 16 * 1024 * 1024
CHUNK_SIZE = 4 * 1024 * 1024


def make_plan(snapshot: Snapshot, request: Request) -> Plan:
    """The plan; raises what stands against it, naming the operator."""
    if snapshot.missing:
        raise SnapshotError(
            "files that the snapshot refers to are gone",
            path=snapshot.metadata_uri,
            expected=f"{len(snapshot.files) - 1} files of state",
            found=f"{len(snapshot.missing)} missing, such as {snapshot.missing[0]}",
            advice="take another snapshot; this one cannot be restored by Flink either",
        )
    shape = new_parallelisms(snapshot.operators, request)
    literals, inline = Literals(), InlineBudget()
    operators = tuple(
        _plan_operator(operator, shape[operator.entry.operator_id], literals, inline) for operator in snapshot.operators
    )
    return Plan(
        format=FORMAT,
        source=snapshot.directory,
        target=request.target,
        metadata_sha256=snapshot.metadata_sha256,
        files=tuple(SourceFile(uri, pin) for uri, pin in snapshot.files),
        allow_prefixes=request.allow_prefixes,
        literals=literals.bytes(),
        part_size=PART_SIZE,
        chunk_size=CHUNK_SIZE,
        operators=operators,
        warnings=(*findings(snapshot), *_remarks(snapshot, shape)),
    )


def _plan_operator(operator: Operator, parallelism: int, literals: Literals, inline: InlineBudget) -> OperatorPlan:
    _refuse_unsupported(operator, parallelism)
    keyed = KeyedPlanner(operator, parallelism, literals, inline)
    streams = (*keyed.streams(), *plan_elements(operator, parallelism, literals, inline))
    headers = [stream.parsed for stream in operator.keyed if stream.parsed is not None]
    old_bytes = [0] * operator.entry.parallelism
    for stream in (*operator.keyed, *operator.raw_keyed):
        old_bytes[stream.subtask] += stream.extent.length
    return OperatorPlan(
        operator_id=operator.entry.operator_id,
        label=operator.label,
        parallelism=operator.entry.parallelism,
        new_parallelism=parallelism,
        max_parallelism=operator.entry.max_parallelism,
        work=WorkClass.RELOCATE,
        states=tuple(dict.fromkeys(f"{s.name} ({s.state_type})" for header in headers for s in header.states)),
        id_tables=tuple(keyed.id_tables),
        streams=streams,
        old_keyed_bytes=tuple(old_bytes),
    )


def _refuse_unsupported(operator: Operator, parallelism: int) -> None:
    if operator.other_keyed:
        raise UnsupportedError(
            "keyed state of this kind is not rescaled",
            operator=operator.label,
            expected="canonical or heap key-group streams",
            found=type(operator.other_keyed[0].handle).__name__,
            advice="take a canonical savepoint (flink savepoint --type canonical) and rescale that",
        )
    if operator.channel_bytes:
        raise UnsupportedError(
            "an unaligned checkpoint with records in flight: they are already dealt to the old subtasks",
            operator=operator.label,
            found=f"{operator.channel_bytes} bytes of channel state",
            advice="take a savepoint, which never holds any",
        )
    if operator.partially_finished and parallelism != operator.entry.parallelism:
        raise UnsupportedError(
            "some subtasks of this operator have finished, which means nothing at another parallelism",
            operator=operator.label,
            expected=f"parallelism {operator.entry.parallelism}",
            found=parallelism,
            advice="name the other operators only (--parallelism UID=N), or take a savepoint before subtasks finish",
        )


def _remarks(snapshot: Snapshot, shape: dict[str, int]) -> list[str]:
    """What the user should know about this request."""
    remarks = [
        f"{operator.label} always runs with one subtask (max parallelism 1) and stays as it is"
        for operator in snapshot.operators
        if operator.entry.max_parallelism == 1 and any(n != 1 for n in shape.values())
    ]
    changed = [o for o in snapshot.operators if shape[o.entry.operator_id] != o.entry.parallelism]
    if changed and all(_aligned(o) for o in changed):
        remarks.append(
            "only the parallelism changes: Flink can do that itself at restore. What this run adds: a certificate, "
            "a self-contained copy, and no redistribution left to do when the job starts"
        )
    return remarks


def _aligned(operator: Operator) -> bool:
    """Whether every keyed stream holds just the key groups of its subtask."""
    entry = operator.entry
    return all(
        stream.key_groups == key_group_range(entry.max_parallelism, entry.parallelism, stream.subtask)
        for stream in (*operator.keyed, *operator.raw_keyed)
    )
