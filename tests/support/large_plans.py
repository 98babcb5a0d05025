"""Plans for states that are too large for a test machine."""

from __future__ import annotations

from functools import cache

from rescale.flink.key_groups import key_group_range
from rescale.flink.keyed.key_group_table import Framing
from rescale.plan.plan import Plan
from rescale.planning.planner import make_plan
from rescale.planning.request.request import make_request
from rescale.snapshot.model import Operator
from support.synthetic import header_of, keyed_stream, operator, snapshot

HEADER = header_of("sum")


@cache
def large_plan(
    size: int, maximum: int | None, subtasks: int = 1000, groups: int = 32768, hot: int = 1, operators: int = 1
) -> Plan:
    """Return a plan for `size` bytes of canonical state in S3, at four fifths of the parallelism `subtasks`.

    If `maximum` is given, the plan changes the number of key groups from `groups` to `maximum`. The first key group of
    each operator is `hot` times as large as the others.
    """
    each = size // operators // (groups + hot - 1)
    source = snapshot(
        *(_operator(f"big {i}", each, subtasks, groups, hot) for i in range(operators)), directory="s3://bucket/source"
    )
    wanted = [] if maximum is None else [str(maximum)]
    request = make_request("s3://bucket/source", "s3://bucket/target", [str(subtasks * 4 // 5)], max_parallelism=wanted)
    return make_plan(source, request)


def _operator(uid: str, each: int, subtasks: int, groups: int, hot: int) -> Operator:
    streams = []
    for subtask in range(subtasks):
        own = key_group_range(groups, subtasks, subtask)
        sizes = {group: each * (1 if group else hot) for group in range(own.first, own.last + 1)}
        streams.append(keyed_stream(subtask, sizes, Framing.CANONICAL, HEADER, first=own.first, last=own.last, file=1))
    return operator(uid, subtasks, groups, keyed=tuple(streams))
