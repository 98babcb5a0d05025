"""Does a result have the streams of raw keyed timers that it should? Their timers are compared as records are."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.errors import IntegrityError, RescaleError
from rescale.execution.validation.coverage import check_equal
from rescale.flink.keyed.header import KeyedHeader, merge_keyed_headers
from rescale.snapshot.model import KeyedStream, Operator


def check_raw_timers(old: Operator, new: Operator) -> None:
    """Where records moved one by one: each stream is of its subtask's key groups.

    Where these are new ones, every subtask has a stream, which lists all services; or none has, and timers are states.
    """
    for stream in new.raw_timers:
        own = new.key_groups_of(stream.subtask)
        check_equal(f"key groups of the timers of subtask {stream.subtask}", own, stream.key_groups, old.label)
    if new.raw_timers and old.max_parallelism != new.max_parallelism:
        subtasks = list(range(new.parallelism)) if old.raw_timers else []
        check_equal("subtasks with raw timers", subtasks, [stream.subtask for stream in new.raw_timers], old.label)
        theirs = list(dict.fromkeys(one.parsed for one in old.raw_timers if one.parsed is not None))
        for stream in new.raw_timers:
            _check_services(old, theirs, stream)


def _check_services(old: Operator, theirs: Sequence[KeyedHeader], stream: KeyedStream) -> None:
    """`theirs` are those that the source's streams list: mostly they all list the same."""
    headers = theirs if stream.parsed is None else [stream.parsed, *theirs]
    try:
        merged = merge_keyed_headers(headers).header
    except RescaleError as error:
        raise IntegrityError(
            f"the timers of subtask {stream.subtask} do not go with the source's: {error.what}", operator=old.label
        ) from None
    what = f"timer services of subtask {stream.subtask}"
    check_equal(what, merged, stream.parsed, old.label)
    known = {state.name for header in theirs for state in header.states}
    check_equal(what, sorted(known), sorted(stream.state_names), old.label)
