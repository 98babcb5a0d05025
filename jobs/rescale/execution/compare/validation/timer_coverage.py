"""Check of a result's streams of raw keyed timers; the timers themselves are compared as records."""

from __future__ import annotations

from collections.abc import Sequence

from rescale.execution.compare.validation.coverage import check_equal
from rescale.flink.keyed.header import KeyedHeader, merge_keyed_headers
from rescale.snapshot.keyed_state import KeyedStream
from rescale.snapshot.model import Operator
from rescale.text.errors import IntegrityError, RescaleError


def check_raw_timers(old: Operator, new: Operator) -> None:
    """Check the raw timers of an operator whose records moved one by one: each stream has its subtask's key groups.

    If the max parallelism changed, either every subtask has a stream that lists all timer services, or none has a
    stream and timers are keyed states.
    """
    for stream in new.raw_timers:
        own = new.key_groups_of(stream.subtask)
        check_equal(f"key groups of the timers of subtask {stream.subtask}", own, stream.key_groups, old.label)
    if new.raw_timers and old.max_parallelism != new.max_parallelism:
        subtasks = list(range(new.parallelism)) if old.raw_timers else []
        check_equal("subtasks with raw timers", subtasks, [stream.subtask for stream in new.raw_timers], old.label)
        source_headers = list(dict.fromkeys(timers.parsed for timers in old.raw_timers if timers.parsed is not None))
        for stream in new.raw_timers:
            _check_services(old, source_headers, stream)


def _check_services(old: Operator, source_headers: Sequence[KeyedHeader], stream: KeyedStream) -> None:
    """Check that a stream lists the timer services of the source's streams, whose distinct headers are given."""
    headers = source_headers if stream.parsed is None else [stream.parsed, *source_headers]
    try:
        merged = merge_keyed_headers(headers).header
    except RescaleError as error:
        raise IntegrityError(
            f"the timers of subtask {stream.subtask} do not agree with the source's: {error.what}", operator=old.label
        ) from None
    subject = f"timer services of subtask {stream.subtask}"
    check_equal(subject, merged, stream.parsed, old.label)
    known = {state.name for header in source_headers for state in header.states}
    check_equal(subject, sorted(known), sorted(stream.state_names), old.label)
