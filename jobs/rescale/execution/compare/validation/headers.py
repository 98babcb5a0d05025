"""Comparison of a result's stream headers with the source's.

Most streams of an operator have the same header, and most new streams get their state from streams with the same
headers, so each distinct combination is compared once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol, TypeVar

from rescale.flink.keyed.header import merge_keyed_headers
from rescale.flink.keyed.timers.heap_timers import timer_header
from rescale.flink.operator_state import merge_operator_state_headers
from rescale.snapshot.keyed_state import Database, KeyedStateHolder, KeyedStream
from rescale.snapshot.model import ElementStream
from rescale.text.errors import IntegrityError, RescaleError

RERUN_ADVICE = "if the result is published, run again into another target; else discard it and run again"
"""Advice for a wrong result: a published one is never discarded."""


class HasHeader(Protocol):
    @property
    def header(self) -> bytes: ...


H = TypeVar("H", bound=HasHeader)

IdMaps = dict[bytes, tuple[int, ...]]
"""For each source header whose state ids differ from the result's: a tuple of the result's ids, by source id."""


def distinct_by_header(streams: Iterable[H]) -> list[H]:
    """Return the first stream with each header."""
    first_streams: dict[bytes, H] = {}
    for stream in streams:
        first_streams.setdefault(stream.header, stream)
    return list(first_streams.values())


class KeyedHeaderComparer:
    """Compares keyed headers of one operator. `timers` are raw keyed streams of the source that become keyed state.

    States in `left_out` are not in the result.
    """

    def __init__(self, label: str, timers: Sequence[KeyedStream] = (), left_out: Collection[str] = ()) -> None:
        self._label = label
        self._timers = timers
        self._left_out = left_out
        self._id_maps_by_headers: dict[tuple[bytes, ...], IdMaps] = {}

    def compare(self, old_holders: Sequence[KeyedStateHolder], new_holder: KeyedStateHolder) -> IdMaps:
        """Compare a header of the result with the merged header of `old_holders`; return the maps of state ids.

        Raises `IntegrityError` unless they are equal.
        """
        headers = new_holder.header, *(old_holder.header for old_holder in old_holders)
        if headers not in self._id_maps_by_headers:
            self._id_maps_by_headers[headers] = self._compared_id_maps(old_holders, new_holder)
        return self._id_maps_by_headers[headers]

    def _compared_id_maps(self, old_holders: Sequence[KeyedStateHolder], new_holder: KeyedStateHolder) -> IdMaps:
        if (
            not self._timers
            and not self._left_out
            and all(old_holder.header == new_holder.header for old_holder in old_holders)
        ):
            return {}
        headers = [holder.parsed for holder in (new_holder, *old_holders) if holder.parsed is not None]
        if isinstance(new_holder, Database):  # RocksDB compresses its own files; Flink's header does not apply to them
            headers = [replace(header, compressed=False) for header in headers]
        with header_errors(f"the header of subtask {new_holder.subtask} does not agree with the source's", self._label):
            if len(headers) <= len(old_holders):
                raise IntegrityError("a header with an unknown serializer differs from the source's")
            compressed = headers[0].compressed
            timer_headers = [
                timer_header(timer_stream.timer_services or (), is_compressed=compressed)
                for timer_stream in self._timers
            ]
            merged_headers = merge_keyed_headers([*headers, *timer_headers], self._left_out)
        check_equal(f"header of subtask {new_holder.subtask}", merged_headers.header, new_holder.parsed, self._label)
        # A RocksDB directory may also list states of source directories from which it has no key group.
        if isinstance(new_holder, KeyedStream):
            source_states = {state.name for header in (*headers[1:], *timer_headers) for state in header.states}
            _refuse_surplus(
                self._label, f"the header of subtask {new_holder.subtask}", source_states, merged_headers.header.names
            )
        id_maps = zip(old_holders, merged_headers.id_maps[1:], strict=False)
        return {old_holder.header: id_map for old_holder, id_map in id_maps if id_map != tuple(range(len(id_map)))}


class ElementHeaderComparer:
    """Compares headers of operator state of one operator."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._equal_headers: set[tuple[bytes, ...]] = set()

    def compare(self, old_streams: Sequence[ElementStream], new_stream: ElementStream) -> None:
        """Raise `IntegrityError` unless the stream's header is the merged header of its `old_streams`."""
        headers = new_stream.header, *(old_stream.header for old_stream in old_streams)
        if headers not in self._equal_headers:
            self._check(old_streams, new_stream)
            self._equal_headers.add(headers)

    def _check(self, old_streams: Sequence[ElementStream], new_stream: ElementStream) -> None:
        if all(old_stream.header == new_stream.header for old_stream in old_streams):
            return
        headers = [stream.parsed for stream in (new_stream, *old_streams) if stream.parsed is not None]
        subject = f"the operator-state header of subtask {new_stream.subtask}"
        with header_errors(f"{subject} does not agree with the source's", self._label):
            if len(headers) <= len(old_streams):
                raise IntegrityError("a header with an unknown serializer differs from the source's")
            merged_header = merge_operator_state_headers(headers)
        check_equal(
            f"operator-state header of subtask {new_stream.subtask}", merged_header, new_stream.parsed, self._label
        )
        source_states = {state.name for header in headers[1:] for state in header.states}
        _refuse_surplus(self._label, subject, source_states, [state.name for state in merged_header.states])


def check_equal(subject: str, expected: object, actual: object, label: str | None = None) -> None:
    """Raise `IntegrityError` about the subject if the result's value differs from the source's."""
    if expected != actual:
        raise IntegrityError(f"{subject}: result and source differ", operator=label, expected=expected, found=actual)


@contextmanager
def header_errors(claim: str, label: str) -> Iterator[None]:
    """Raise an error of the block as an `IntegrityError` that begins with `claim` and names the operator."""
    try:
        yield
    except RescaleError as error:
        raise IntegrityError(f"{claim}: {error.what}", operator=label) from None


def _refuse_surplus(label: str, subject: str, source_states: Collection[str], states: Sequence[str]) -> None:
    """Raise `IntegrityError` if a state is not in the source, which means that planning has misread a header."""
    surplus_states = [state for state in states if state not in source_states]
    if surplus_states:
        raise IntegrityError(
            f"{subject} has a state that the source does not have",
            operator=label,
            state=surplus_states[0],
            expected=f"{len(source_states)} states",
            found=f"{len(states)}",
            advice=RERUN_ADVICE,
        )
