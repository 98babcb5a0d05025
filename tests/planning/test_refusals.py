"""State that cannot be read or written: changelogs that cannot be replayed, names that RocksDB does not take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.metadata.handles import DistributionMode
from rescale.planning.refusals import refuse_changelog, refuse_state_names, refuse_unreadable_state
from rescale.planning.request.result_files import Format
from rescale.snapshot.keyed_state import Changelog, KeyedStream
from rescale.snapshot.locate import Extent
from rescale.snapshot.model import ElementState, ElementStream, Operator
from rescale.text.errors import SnapshotError, UnsupportedError
from support.snapshot_bytes import operator_header, operator_list
from support.snapshots import names, opened
from support.synthetic import database, header_of, operator, own_stream

CHANGELOG_FIXTURE = "2-changelog-over-heap"


def operator_with_changelog(
    first_changelog: Changelog | None = None, raw_keyed: tuple[KeyedStream, ...] = ()
) -> Operator:
    """Return the operator with a changelog, with another changelog for one subtask."""
    (operator,) = (operator for operator in opened(CHANGELOG_FIXTURE).operators if operator.changelogs)
    stored_changelog, *other_changelogs = operator.changelogs
    return replace(operator, changelogs=(first_changelog or stored_changelog, *other_changelogs), raw_keyed=raw_keyed)


def test_changelog_that_can_be_replayed_is_accepted() -> None:
    refuse_changelog(operator_with_changelog(), Format.CANONICAL)
    refuse_changelog(operator_with_changelog(), Format.ROCKSDB)


def test_changelog_without_a_key_serializer_is_refused() -> None:
    first = operator_with_changelog().changelogs[0]
    with pytest.raises(UnsupportedError, match="does not describe the serializer of its keys") as caught:
        refuse_changelog(operator_with_changelog(replace(first, base=(), header=b"", parsed=None)), Format.CANONICAL)
    assert caught.value.operator
    assert "start the job from this snapshot unchanged" in str(caught.value.advice)


def test_changelog_with_an_unknown_serializer_is_refused() -> None:
    first = operator_with_changelog().changelogs[0]
    with pytest.raises(UnsupportedError, match="an unknown serializer"):
        refuse_changelog(operator_with_changelog(replace(first, header=b"", parsed=None)), Format.CANONICAL)


def test_changelog_beside_raw_keyed_timers_is_refused() -> None:
    raw_timers = next(o.raw_timers for o in opened("2-rocksdb-heap-timers").operators if o.raw_timers)
    with pytest.raises(UnsupportedError, match="timers are both in a changelog and in raw keyed state"):
        refuse_changelog(operator_with_changelog(raw_keyed=raw_timers), Format.CANONICAL)


def canonical_operator(*names: str) -> Operator:
    return operator("counts", keyed=(own_stream(0, 1, 128, Framing.CANONICAL, header_of(*names)),))


def rocksdb_operator(*names: str) -> Operator:
    return operator("counts", databases=(replace(database(0, 1, 128, 10), parsed=header_of(*names)),))


def test_state_names_that_rocksdb_takes_are_accepted() -> None:
    names = ("", "/", " ", "defaults", "ü𝄞", "x" * 3000)
    refuse_state_names(canonical_operator(*names), Format.ROCKSDB)
    refuse_state_names(rocksdb_operator(*names), Format.KEEP)


@pytest.mark.parametrize(("name", "message"), [("a\0b", "a NUL character"), ("default", "reserves for itself")])
def test_canonical_state_with_a_name_unfit_for_rocksdb_stays_canonical(name: str, message: str) -> None:
    named_operator = canonical_operator("fine", name)
    refuse_state_names(named_operator, Format.KEEP)
    refuse_state_names(named_operator, Format.CANONICAL)
    with pytest.raises(UnsupportedError, match=message) as caught:
        refuse_state_names(named_operator, Format.ROCKSDB)
    assert (caught.value.operator, caught.value.state) == ("counts", name)
    assert "--format canonical" in str(caught.value.advice)
    refuse_state_names(replace(named_operator, dropped_states=frozenset({name})), Format.ROCKSDB)


@pytest.mark.parametrize("result_format", Format)
def test_rocksdb_directory_with_an_unfit_state_name_is_refused(result_format: Format) -> None:
    """Dropping the state does not help, because RocksDB opens its directory with all states."""
    named_operator = replace(rocksdb_operator("fine", "a\0b"), dropped_states=frozenset({"a\0b"}))
    with pytest.raises(UnsupportedError, match="a NUL character") as caught:
        refuse_state_names(named_operator, result_format)
    assert "take a canonical savepoint" in str(caught.value.advice)


def list_operator(*extents: tuple[int, int], compressed: bool) -> Operator:
    """Return an operator with these elements, given as (start, length), in two list states."""
    header = operator_header((operator_list("a"), operator_list("b")), compressed=compressed)
    element_extents = [Extent(1, len(header) + start, length) for start, length in extents]
    states = (
        ElementState("a", DistributionMode.SPLIT_DISTRIBUTE, tuple(element_extents[:-1])),
        ElementState("b", DistributionMode.SPLIT_DISTRIBUTE, tuple(element_extents[-1:])),
    )
    end = max(extent.start + extent.length for extent in element_extents)
    return operator("lists", elements=(ElementStream(0, Extent(1, 0, end), states, header, None),))


@pytest.mark.parametrize("extents", [[(0, 40), (0, 40), (0, 40)], [(0, 40), (40, 9), (40, 9)]])
def test_compressed_elements_that_share_an_offset_are_refused(extents: list[tuple[int, int]]) -> None:
    """Flink 1.18.0 and 1.18.1 give all elements in a chunk the offset of the chunk, also those of different states."""
    with pytest.raises(SnapshotError, match="share an offset") as caught:
        refuse_unreadable_state(list_operator(*extents, compressed=True))
    assert caught.value.operator == "lists"
    assert "without compression" in str(caught.value.advice)


def test_elements_whose_ends_are_known_are_accepted() -> None:
    refuse_unreadable_state(list_operator((0, 40), (40, 9), (49, 9), compressed=True))
    refuse_unreadable_state(list_operator((0, 40), (40, 0), (40, 0), compressed=True))
    refuse_unreadable_state(list_operator((0, 40), (0, 40), (0, 40), compressed=False))
    for name in names():
        assert not any(stream.shares_offsets for o in opened(name).operators for stream in o.element_streams), name
