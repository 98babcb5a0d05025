"""The streams whose records get new key groups, from end to end, on the driver.

Everything is read and sorted first. Then the size of every new stream is known, and that every record was in its
place: only now is anything written. A file that is there with its size was written by an earlier try, and is left.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial

from rescale.errors import RescaleError, SnapshotError, StoreError
from rescale.execution.progress import Progress
from rescale.execution.rekeying.gather import Gather, Written
from rescale.execution.rekeying.lanes import Lane, plan_lanes
from rescale.execution.rekeying.layout import LaneWork, Merge, stream_parts
from rescale.execution.rekeying.read_units import is_shuffled, read_units
from rescale.execution.rekeying.sources import operator_source
from rescale.execution.rekeying.spread import Spread
from rescale.execution.rekeying.totals import add_up
from rescale.execution.rekeying.unshuffled import convert_databases
from rescale.execution.side_by_side import side_by_side
from rescale.execution.tasks import Tasks
from rescale.execution.writers.handles import WrittenStream, written_handle
from rescale.execution.writers.move import begun_in_parts, stream_uri
from rescale.planning.pieces import InlineBudget
from rescale.planning.plan import NewStream, Plan
from rescale.storage.locations import name
from rescale.storage.store import open_store
from rescale.target.places import places_of
from rescale.target.written_handles import WrittenHandle


@dataclass
class _Stream:
    """A new stream on its way: `lengths` of its key groups; what is to be written; what was, by part or by lane."""

    operator: int
    number: int
    stream: NewStream
    lengths: tuple[int, ...]
    lanes: list[Lane]
    works: list[LaneWork] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    token: str = ""
    receipts: dict[int, str] = field(default_factory=dict)
    inline: dict[int, bytes] = field(default_factory=dict)
    whole: Written | None = None

    @property
    def size(self) -> int:
        return self.stream.size + sum(self.lengths)


def rekey_streams(plan: Plan, tasks: Tasks, there: dict[str, int]) -> list[WrittenHandle]:
    """Writes them all; returns their handles. `there` has the files of the target by name, with their sizes."""
    handles = convert_databases(plan, tasks, there)
    numbers = [i for i, operator in enumerate(plan.operators) if is_shuffled(operator)]
    if not numbers:
        return handles
    lanes = plan_lanes(plan, tasks.cores)
    units = read_units(plan)
    receipts = lanes[-1].partition + 1
    progress = Progress("read and check every record", sum(unit.size for unit in units))
    shuffle = tasks.shuffle(
        partial(Spread, plan, lanes, receipts), [(unit.size, unit) for unit in units], receipts + 1, progress
    )
    states = {i: operator_source(plan, plan.operators[i]).number_of_states for i in numbers}
    slots = {i: (plan.operators[i].new_max_parallelism * states[i], states[i]) for i in numbers}
    totals = shuffle.read(receipts, partial(add_up, slots=slots))
    if isinstance(totals, RescaleError):
        raise totals
    streams = _streams(plan, {i: totals[i].key_groups().tolist() for i in numbers}, lanes)
    _lay_out(plan, streams, there)
    works: dict[int, list[LaneWork]] = defaultdict(list)
    for stream in streams:
        for work in stream.works:
            works[work.lane.partition].append(work)
    sizes = {(stream.operator, stream.number): stream.size for stream in streams}
    by_place = {(stream.operator, stream.number): stream for stream in streams}
    due = {partition: sum(work.size for work in some) for partition, some in works.items()}
    writing = Progress("write every record under its new key group", sum(due.values()))
    for written in shuffle.write(due, Gather(plan, dict(works), states, sizes), writing):
        if isinstance(written, RescaleError):
            raise written
        _take(by_place[written.operator, written.stream], written)
    _merge(plan, tasks, streams)
    return handles + [_handle(plan, stream) for stream in streams]


def _streams(plan: Plan, lengths: dict[int, list[int]], lanes: list[Lane]) -> list[_Stream]:
    by_stream: dict[tuple[int, int], list[Lane]] = defaultdict(list)
    for lane in lanes:
        by_stream[lane.operator, lane.subtask].append(lane)
    return [
        _Stream(
            i,
            j,
            stream,
            tuple(lengths[i][stream.first_key_group : stream.first_key_group + len(stream.key_groups)]),
            by_stream[i, stream.subtask],
        )
        for i in lengths
        for j, stream in enumerate(plan.operators[i].streams)
        if stream.rekeyed
    ]


def _lay_out(plan: Plan, streams: list[_Stream], there: dict[str, int]) -> None:
    """Decides what each lane writes."""
    planned = (stream for operator in plan.operators for stream in operator.streams if stream.inline)
    inline = InlineBudget(spent=sum(stream.size for stream in planned))
    in_parts: list[tuple[_Stream, str, list[tuple[Lane, int]]]] = []
    for stream in streams:
        uri = stream_uri(plan, plan.operators[stream.operator], stream.stream)
        is_inline = not stream.stream.compressed and inline.takes(stream.size)
        if not stream.stream.compressed and there.get(name(uri)) == stream.size:
            continue
        first = stream.stream.first_key_group
        sizes = [sum(stream.lengths[lane.first - first : lane.last - first + 1]) for lane in stream.lanes]
        sizes[0] += stream.stream.size
        lanes = list(zip(stream.lanes, sizes, strict=True))
        if is_inline or len(lanes) == 1:
            stream.works = [
                LaneWork(lane, stream.number, first=i == 0, size=size, inline=is_inline)
                for i, (lane, size) in enumerate(lanes)
            ]
            continue
        in_parts.append((stream, name(uri), lanes))
    begun = side_by_side(
        lambda one: begun_in_parts(plan, plan.operators[one.operator], one.stream), [one for one, _, _ in in_parts]
    )
    smallest = open_store(plan.target).smallest_part
    for (stream, file_name, lanes), stream.token in zip(in_parts, begun, strict=True):
        parts = stream_parts(plan, stream.number, file_name, stream.token, lanes, smallest)
        stream.works, stream.merges = list(parts.works), list(parts.merges)


def _take(stream: _Stream, written: Written) -> None:
    if written.data is not None:
        stream.inline[written.first_key_group] = written.data
    elif stream.token:
        stream.receipts |= dict(written.receipts)
    else:
        stream.whole = written


def _merge(plan: Plan, tasks: Tasks, streams: list[_Stream]) -> None:
    """Makes parts of what was staged, and then files of all parts."""
    store = open_store(plan.target)
    merges = [(1, merge) for stream in streams for merge in stream.merges]
    by_place = {(stream.operator, stream.number): stream for stream in streams}
    for merge, receipt in tasks.run(partial(_merged, plan), merges, Progress("join small parts", len(merges))):
        by_place[merge.operator, merge.stream].receipts[merge.part] = receipt
    side_by_side(partial(_complete, plan), [stream for stream in streams if stream.token])
    names = tuple(name(stream_uri(plan, plan.operators[stream.operator], stream.stream)) for stream in streams)
    staged = [entry.uri for entry in store.list(places_of(plan).staging)]
    store.delete([uri for uri in staged if name(uri).startswith(names)])  # what an earlier try left, too


def _complete(plan: Plan, stream: _Stream) -> None:
    uri = stream_uri(plan, plan.operators[stream.operator], stream.stream)
    receipts = [stream.receipts[i] for i in sorted(stream.receipts)]
    open_store(uri).complete_parts(uri, stream.token, receipts, stream.size)


def _merged(plan: Plan, merge: Merge) -> tuple[Merge, str]:
    store = open_store(plan.target)
    try:
        data = b"".join(store.read_all(uri, 1 << 30)[0] for uri in merge.staged)
    except SnapshotError as error:
        raise StoreError(
            "what was staged is gone: another run of this plan is at work, or was",
            path=error.path,
            advice="run the same command again when the other has ended: it resumes",
        ) from None
    operator = plan.operators[merge.operator]
    uri = stream_uri(plan, operator, operator.streams[merge.stream])
    return merge, store.put_part(uri, merge.token, merge.part, merge.offset, data)


def _handle(plan: Plan, stream: _Stream) -> WrittenHandle:
    whole = stream.whole
    lengths = whole.key_groups if whole is not None and whole.key_groups else stream.lengths
    written = WrittenStream(
        stream.stream,
        stream.size if whole is None else whole.size,
        tuple(length or -1 for length in lengths),
        b"".join(data for _, data in sorted(stream.inline.items())) if stream.inline else None,
    )
    return written_handle(plan, plan.operators[stream.operator], written)
