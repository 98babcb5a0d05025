"""The validator finds every fault planted in a result whose records have new key groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.encoding.snappy import FramedCompressor, FramedDecompressor
from rescale.flink.keyed.header import read_keyed_header, write_keyed_header
from rescale.flink.slot import Slot
from rescale.runstate.publication import publish
from rescale.snapshot.keyed_state import KeyedStream
from support import snapshots
from support.canonical import Record, read_group, write_group
from support.finished import HANDLE_FAULTS, assert_found, keyed_handle, rescaled
from support.pipeline import certify, plan_rescale
from support.planting import Place, Result
from support.slow import pairs_in_turn, slow

ResultOf = Callable[..., Result]
CASES = [
    ("2-clicks", "1000"),
    ("2-clicks", "64"),
    ("2-lazy", "1000"),
    ("2-canonical-compressed", "100"),
    ("2-lazy-compressed", "64"),
]
WITHOUT_HASHES = [(name, max_parallelism) for name, max_parallelism in CASES if max_parallelism == "64"]
"""Cases whose new maximum divides the old one, so that the hashes need not be known."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], Result]:
    """Return a function that rescales a snapshot to another max parallelism."""
    return cache(
        lambda name, max_parallelism: rescaled(
            name, tmp_path_factory.mktemp("finished"), "2", max_parallelism=[max_parallelism]
        )
    )


Groups = dict[int, list[Record]]


@dataclass(frozen=True)
class LargestStream:
    """The largest keyed stream of a result whose key groups are new."""

    result: Result
    place: Place
    label: str
    max_parallelism: int

    @classmethod
    def of(cls, result: Result) -> LargestStream:
        places = [place for place in result.places(Slot.KEYED) if len(stream_of(place).groups) > 1]
        place = max(places, key=lambda place: place.stream.extent.length)
        operator = result.opened().operators[place.operator]
        return cls(result, place, operator.label, operator.max_parallelism)

    @property
    def first_key_group(self) -> int:
        return stream_of(self.place).first_key_group

    def groups(self) -> Groups:
        """Return the records of all key groups; an absent key group has none."""
        by_key_group: Groups = {}
        for group, data in enumerate(self.result.groups(self.place), self.first_key_group):
            content = FramedDecompressor().feed(data) if data and self._compressed else data
            by_key_group[group] = [record for _, record in read_group(content, self.max_parallelism)] if content else []
        return by_key_group

    def write(self, groups: Groups) -> None:
        """Write key groups in correct framing."""
        written_groups: list[bytes | None] = []
        for group, records in groups.items():
            data = write_group(group, records, self.max_parallelism)
            written_groups.append((compressed(data) if self._compressed else data) if records else None)
        self.result.write_groups(self.place, written_groups)

    @property
    def _compressed(self) -> bool:
        header = stream_of(self.place).parsed
        return header is not None and header.compressed


def stream_of(place: Place) -> KeyedStream:
    assert isinstance(place.stream, KeyedStream)
    return place.stream


def compressed(data: bytes) -> bytes:
    compressor = FramedCompressor()
    return compressor.feed(data) + compressor.finish()


def filled_groups(groups: Groups) -> list[int]:
    return [group for group, records in groups.items() if records]


def flip_a_value(groups: Groups) -> None:
    records = groups[filled_groups(groups)[0]]
    index = next(i for i, record in enumerate(records) if record.value)
    value = records[index].value
    records[index] = records[index]._replace(value=value[:-1] + bytes([value[-1] ^ 1]))


def flip_a_key(groups: Groups) -> None:
    records = groups[filled_groups(groups)[0]]
    key = records[0].key
    records[0] = records[0]._replace(key=key[:1] + bytes([key[1] ^ 1]) + key[2:])


def lose_a_record(groups: Groups) -> None:
    records = next(records for records in groups.values() if len(records) > 1)
    del records[len(records) // 2]


def lose_the_only_record(groups: Groups) -> None:
    groups[filled_groups(groups)[-1]] = []


def double_a_record(groups: Groups) -> None:
    records = groups[filled_groups(groups)[0]]
    records.insert(0, records[0])


def lose_one_and_double_another(groups: Groups) -> None:
    records = next(records for records in groups.values() if len(records) > 1)
    records[1] = records[0]


def move_a_record(groups: Groups) -> None:
    first, other, *_ = filled_groups(groups)
    groups[other].append(groups[first].pop())


def move_a_record_to_an_empty_group(groups: Groups) -> None:
    empty = next((group for group, records in groups.items() if not records), filled_groups(groups)[0])
    groups[empty] = [*groups[empty], groups[filled_groups(groups)[-1]].pop()]


def exchange_two_groups(groups: Groups) -> None:
    first, *_, other = filled_groups(groups)
    groups[first], groups[other] = groups[other], groups[first]


def exchange_two_values(groups: Groups) -> None:
    places = [(group, i) for group, records in groups.items() for i in range(len(records))]
    for (g, i), (h, j) in combinations(places, 2):
        first, other = groups[g][i], groups[h][j]
        if first.state == other.state and first.value != other.value:
            groups[g][i], groups[h][j] = first._replace(value=other.value), other._replace(value=first.value)
            return
    raise AssertionError("no two values of a state differ")


def give_a_state_another_id(groups: Groups) -> None:
    states = {record.state for records in groups.values() for record in records}
    first, other = min(states), max(states)
    assert first != other
    for records in groups.values():
        records[:] = [r._replace(state=other) if r.state == first else r for r in records]


def exchange_two_ids(groups: Groups) -> None:
    states = {record.state for records in groups.values() for record in records}
    ids = {min(states): max(states), max(states): min(states)}
    for records in groups.values():
        records[:] = [r._replace(state=ids.get(r.state, r.state)) for r in records]


def exchange_bytes_of_key_and_value(groups: Groups) -> None:
    """Move a byte from the end of a key to the front of its value."""
    records = groups[filled_groups(groups)[0]]
    key, value = records[0].key, records[0].value
    records[0] = records[0]._replace(key=key[:-1], value=key[-1:] + value)


RECORD_FAULTS: dict[str, Callable[[Groups], None]] = {
    "a flipped bit of a value": flip_a_value,
    "a flipped bit of a key": flip_a_key,
    "a lost record": lose_a_record,
    "a lost group": lose_the_only_record,
    "a doubled record": double_a_record,
    "one lost and one doubled": lose_one_and_double_another,
    "a record in another group": move_a_record,
    "a record in an empty group": move_a_record_to_an_empty_group,
    "two groups exchanged": exchange_two_groups,
    "two values exchanged": exchange_two_values,
    "records under another state": give_a_state_another_id,
    "two states exchanged": exchange_two_ids,
    "a byte less of key and more of value": exchange_bytes_of_key_and_value,
}


@pytest.mark.parametrize(("name", "max_parallelism"), [*CASES, ("2-heap-native", "1000")])
def test_untouched_result_passes(name: str, max_parallelism: str, result_of: ResultOf) -> None:
    result = result_of(name, max_parallelism)
    rekeyed_proofs = [proof for proof in result.validate() if proof.records is not None]
    assert rekeyed_proofs
    for proof in rekeyed_proofs:
        assert proof.records is not None
        assert proof.records.key_hash == result.key_hashes[proof.operator_id]
        operator = next(o for o in result.opened().operators if o.operator_id == proof.operator_id)
        assert proof.key_groups == sum(group is not None for stream in operator.keyed for group in stream.groups)
        assert (
            sum(digest.records for digest in proof.records.states.values()) >= proof.records.distinct_keys_at_least > 0
        )


@pytest.mark.parametrize(("fault", "case"), pairs_in_turn(RECORD_FAULTS, CASES))
def test_fault_in_records_is_found(fault: str, case: tuple[str, str], result_of: ResultOf) -> None:
    result = result_of(*case)
    stream = LargestStream.of(result)
    groups = stream.groups()
    stream.write(groups)
    result.validate()
    RECORD_FAULTS[fault](groups)
    stream.write(groups)
    error = assert_found(result)
    assert error.operator == stream.label


@pytest.mark.parametrize(("fault", "case"), pairs_in_turn(RECORD_FAULTS, WITHOUT_HASHES, quick=1))
def test_fault_in_records_is_found_without_key_hashes(fault: str, case: tuple[str, str], result_of: ResultOf) -> None:
    result = replace(result_of(*case), key_hashes={})
    stream = LargestStream.of(result)
    groups = stream.groups()
    RECORD_FAULTS[fault](groups)
    stream.write(groups)
    assert_found(result)


@pytest.mark.parametrize(("name", "max_parallelism"), [CASES[0], *(slow(*case) for case in CASES[1:])])
def test_flipped_bit_at_any_place_in_key_groups_is_found(name: str, max_parallelism: str, result_of: ResultOf) -> None:
    result = result_of(name, max_parallelism)
    place = LargestStream.of(result).place
    stream = stream_of(place)
    begin, end = len(stream.header), stream.extent.length
    for position in range(begin, end, max(1, (end - begin) // 40)):
        place.flip(position, bit=position % 8)
        assert_found(result)
        place.flip(position, bit=position % 8)
    result.validate()


FAULTS = {
    **HANDLE_FAULTS,
    "every key group at its neighbour": keyed_handle(lambda h: replace(h, offsets=(*h.offsets[1:], h.offsets[0]))),
    "more groups": keyed_handle(lambda handle: replace(handle, offsets=(*handle.offsets, 0))),
    "an absent group": keyed_handle(
        lambda h: replace(h, offsets=tuple(0 if o == max(h.offsets) else o for o in h.offsets))
    ),
    "a native handle": keyed_handle(lambda handle: replace(handle, tag=12, handle_id="x")),
}


@pytest.mark.parametrize(("fault", "case"), pairs_in_turn(FAULTS, CASES[1:4], quick=1))
def test_fault_in_a_handle_is_found(fault: str, case: tuple[str, str], result_of: ResultOf) -> None:
    result = result_of(*case)
    FAULTS[fault](result, LargestStream.of(result).place)
    assert_found(result)


@pytest.mark.parametrize(("case", "increment"), pairs_in_turn(CASES, [1, -1, 64], quick=1))
def test_other_max_parallelism_in_metadata_is_found(case: tuple[str, str], increment: int, result_of: ResultOf) -> None:
    result = result_of(*case)
    operator_index = LargestStream.of(result).place.operator
    result.edit_operator(
        operator_index, lambda entry: replace(entry, max_parallelism=entry.max_parallelism + increment)
    )
    assert_found(result)


@pytest.mark.parametrize(("name", "max_parallelism"), CASES)
def test_max_parallelism_of_the_source_in_metadata_is_found(
    name: str, max_parallelism: str, result_of: ResultOf
) -> None:
    result = result_of(name, max_parallelism)
    operator_index = LargestStream.of(result).place.operator
    old_max_parallelism = snapshots.opened(name).operators[operator_index].max_parallelism
    result.edit_operator(operator_index, lambda entry: replace(entry, max_parallelism=old_max_parallelism))
    assert_found(result)


@pytest.mark.parametrize(("case", "position"), pairs_in_turn(CASES, [0.0, 0.1, 0.5, 0.9, 1.0]))
def test_flipped_bit_of_a_header_is_found(case: tuple[str, str], position: float, result_of: ResultOf) -> None:
    result = result_of(*case)
    place = LargestStream.of(result).place
    place.flip(int(position * (len(stream_of(place).header) - 1)))
    assert_found(result)


@pytest.mark.parametrize(("name", "max_parallelism"), CASES)
def test_states_in_another_order_are_found(name: str, max_parallelism: str, result_of: ResultOf) -> None:
    """The header has the same length, and names the first state last."""
    result = result_of(name, max_parallelism)
    place = LargestStream.of(result).place
    header = stream_of(place).header
    parsed = read_keyed_header(header, "")
    changed_header = write_keyed_header(replace(parsed, states=(*parsed.states[1:], parsed.states[0])))
    assert len(changed_header) == len(header) > 0
    if len(parsed.states) > 1:
        place.path.write_bytes(changed_header + place.path.read_bytes()[len(header) :])
        assert_found(result)


def test_published_result_is_validated_without_its_plan(tmp_path: Path) -> None:
    """The hash rule of the keys is determined again."""
    plan = plan_rescale(snapshots.directory("2-clicks"), str(tmp_path / "target"), ["3"], max_parallelism=["1000"])
    certificate = certify(plan)
    publish(plan)
    second_certificate = validate_published(plan.source, plan.target, InProcessTasks())
    assert second_certificate.operators == certificate.operators
    records = [operator.records for operator in certificate.operators if operator.records]
    assert len(records) == 4
    assert {record.hash_is for record in records} == {"known"}
