"""Old rows of a request, resolved to states and to a time of last access."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from rescale.flink.keyed.header import read_keyed_header
from rescale.flink.keyed.ttl.last_access import milliseconds
from rescale.flink.operator_id import operator_id_of_uid
from rescale.flink.serializers.snapshot import SerializerSnapshot
from rescale.flink.state_meta_info import SerializerKey
from rescale.planning.request.surgery import resolve_surgery
from rescale.planning.request.surgery_request import parse_surgery
from rescale.snapshot.model import Operator, Snapshot
from rescale.snapshot.old_rows import OldRows, old_rows
from rescale.text.errors import RequestError, UnsupportedError
from support.snapshot_bytes import CUSTOM, LONG, composite, keyed_header, keyed_state
from support.snapshots import opened
from support.timed_rows import MAPS, VALUES

NOON = datetime(2026, 11, 28, 12, 0, 0, 500_900, UTC)
SNAPSHOT = replace(opened("2-canonical-rocksdb"), metadata_time=NOON)


def old_rows_of(*values: str, snapshot: Snapshot = SNAPSHOT, **surgery: list[str]) -> tuple[OldRows, ...]:
    return resolve_surgery(snapshot, parse_surgery(ages=values, **surgery)).old_rows


def test_age_counts_from_the_time_of_the_metadata_in_whole_milliseconds() -> None:
    values, maps = old_rows_of(f"states:{VALUES}=30d", f"{operator_id_of_uid('states')}:{MAPS}=1ms")
    noon = milliseconds(NOON)
    assert noon == 1_000 * int(NOON.timestamp()) + 500
    assert (values.name, values.type, values.until) == (VALUES, "VALUE", noon - 30 * 24 * 3_600_000)
    assert (maps.name, maps.type, maps.until, maps.label) == (MAPS, "MAP", noon - 1, "states")
    assert values.of_bytes == maps.of_bytes > 0


def test_time_of_last_access_may_be_named() -> None:
    (rows,) = old_rows_of(f"states:{VALUES}=2026-11-28T13:00:00+02:00", snapshot=replace(SNAPSHOT, metadata_time=None))
    assert rows.until == milliseconds(NOON - timedelta(hours=1, microseconds=500_900))


@pytest.mark.parametrize(
    ("values", "surgery", "message"),
    [
        (["statse:last=30d"], {}, "no operator 'statse' in the snapshot"),
        (["states:lost=30d"], {}, "no keyed state 'lost' in the operator"),
        (["states:last=30d"], {}, "the state has no time to live (TTL)"),
        (["states:by-parity=30d"], {}, "the state has no time to live (TTL)"),
        (["states:_timer_state/event_alarms=30d"], {}, "the state has no time to live (TTL)"),
        (["lists:offsets=30d"], {}, "no keyed state 'offsets'"),
        ([f"states:{VALUES}=2026-11-28T12:00:01Z"], {}, "later than the snapshot"),
        ([f"states:{VALUES}=1d", f"{operator_id_of_uid('states')}:{VALUES}=2d"], {}, "named twice"),
        ([f"states:{VALUES}=1d"], {"drops": ["states"]}, "an operator is dropped, and old rows"),
        ([f"states:{VALUES}=1d"], {"state_drops": [f"states:{VALUES}"]}, "a state is dropped, and its old rows"),
    ],
)
def test_impossible_requests_are_refused(values: list[str], surgery: dict[str, list[str]], message: str) -> None:
    with pytest.raises(RequestError) as caught:
        old_rows_of(*values, **surgery)
    assert message in str(caught.value)


def test_refusal_names_the_states_with_a_ttl() -> None:
    with pytest.raises(RequestError) as caught:
        old_rows_of("states:last=30d")
    assert VALUES in str(caught.value.expected)
    assert "--drop-state" in str(caught.value.advice)


def test_age_needs_the_time_of_the_snapshot() -> None:
    with pytest.raises(RequestError, match="does not know when the snapshot was written"):
        old_rows_of(f"states:{VALUES}=30d", snapshot=replace(SNAPSHOT, metadata_time=None))


def test_state_whose_format_is_unknown_is_not_said_to_have_no_ttl() -> None:
    (operator,) = (operator for operator in SNAPSHOT.operators if operator.label == "states")
    maps = next(state for state in operator.keyed_states if state.name == MAPS)
    custom = SerializerSnapshot("com.example.MapSnapshot", 1, b"")
    unreadable_serializers = tuple(
        (key, custom if key == SerializerKey.VALUE else serializer) for key, serializer in maps.serializers
    )
    changed_operator = SimpleNamespace(keyed_states=[replace(maps, serializers=unreadable_serializers)], label="states")
    with pytest.raises(UnsupportedError, match="the format of a map state") as caught:
        old_rows(cast(Operator, changed_operator), MAPS, milliseconds(NOON))
    assert (caught.value.operator, caught.value.state) == ("states", MAPS)


def test_values_with_an_unknown_serializer_after_their_time_can_be_left_out() -> None:
    """The time has a fixed place and size, so a value of any class may follow it."""
    ttl = composite("org.apache.flink.runtime.state.ttl.TtlStateFactory$TtlSerializerSnapshot", LONG, CUSTOM)
    header = read_keyed_header(keyed_header(keyed_state("prices", ttl)), "a file")
    operator = SimpleNamespace(
        keyed_states=header.states, parsed_headers=[header], managed_keyed=(), operator_id="1", label="states"
    )
    assert old_rows(cast(Operator, operator), "prices", 7) == OldRows("1", "states", "prices", "VALUE", 7, 0)
