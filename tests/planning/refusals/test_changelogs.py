"""Changelogs that cannot be replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.planning.refusals.changelogs import refuse_changelog
from rescale.planning.request.result_files import Format
from rescale.snapshot.keyed_state import Changelog, KeyedStream
from rescale.snapshot.model import Operator
from rescale.text.errors import UnsupportedError
from support.snapshots import opened

NAME = "2-changelog-over-heap"


def operator_with(change: Changelog | None = None, raw_keyed: tuple[KeyedStream, ...] = ()) -> Operator:
    """The one with a changelog, which for one subtask is another one."""
    (operator,) = (operator for operator in opened(NAME).operators if operator.changelogs)
    first, *others = operator.changelogs
    return replace(operator, changelogs=(change or first, *others), raw_keyed=raw_keyed)


def test_what_can_be_replayed_is_not_refused() -> None:
    refuse_changelog(operator_with(), Format.CANONICAL)
    refuse_changelog(operator_with(), Format.ROCKSDB)


def test_nobody_says_how_keys_are_written() -> None:
    first = operator_with().changelogs[0]
    with pytest.raises(UnsupportedError, match="does not describe the serializer of its keys") as caught:
        refuse_changelog(operator_with(replace(first, base=(), header=b"", parsed=None)), Format.CANONICAL)
    assert caught.value.operator
    assert "start the job from this snapshot unchanged" in str(caught.value.advice)


def test_a_serializer_is_not_known() -> None:
    first = operator_with().changelogs[0]
    with pytest.raises(UnsupportedError, match="an unknown serializer"):
        refuse_changelog(operator_with(replace(first, header=b"", parsed=None)), Format.CANONICAL)


def test_timers_beside_it() -> None:
    timers = next(o.raw_timers for o in opened("2-rocksdb-heap-timers").operators if o.raw_timers)
    with pytest.raises(UnsupportedError, match="timers are both in a changelog and in raw keyed state"):
        refuse_changelog(operator_with(raw_keyed=timers), Format.CANONICAL)
