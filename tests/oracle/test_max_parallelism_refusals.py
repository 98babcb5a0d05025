"""A max parallelism that is impossible is refused by the plan, or by a record whose key group contradicts it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from oracle.cases import everything, graph
from oracle.harness import Flink, Job
from oracle.key_types import UNKNOWN_KEYS, keyed
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.operator_id import operator_id_of_uid
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError, RequestError, UnsupportedError
from support.commands import in_a_process
from support.pipeline import rescale_snapshot
from support.slow import slow

BY_LONG = keyed(2, 128, "Long")
"""A job with keys of eight bytes, whose hash combines both halves."""


class Record(NamedTuple):
    """A record of the state `sum` in the source: its file, where its key begins in it, and its key group."""

    path: Path
    key_offset: int
    key_group: int

    @property
    def key(self) -> bytes:
        return self.path.read_bytes()[self.key_offset : self.key_offset + 8]

    def write_key(self, key: bytes) -> None:
        data = self.path.read_bytes()
        self.path.write_bytes(data[: self.key_offset] + key + data[self.key_offset + 8 :])


def records(source: Path) -> Iterator[Record]:
    """Yield the records of `BY_LONG`'s sums, in order of their key groups."""
    snapshot = open_snapshot(str(source))
    for stream in snapshot.operators[_operator_index(source)].keyed:
        assert stream.framing is Framing.CANONICAL
        assert stream.parsed is not None
        names = [state.name for state in stream.parsed.states]
        path = Path(snapshot.files[stream.extent.file][0])
        data = path.read_bytes()
        for key_group, extent in enumerate(stream.groups, stream.first_key_group):
            if extent is not None:
                for state_id, at in _key_offsets(data, extent.start):
                    if names[state_id] == "sum":
                        yield Record(path, at + 1, key_group)


def _operator_index(source: Path) -> int:
    ids = [operator.operator_id for operator in open_snapshot(str(source)).operators]
    return ids.index(operator_id_of_uid("by Long"))


def _key_offsets(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield (state id, begin of the key) of the records of the key group that begins at `at`."""
    (state_id,) = struct.unpack_from(">H", data, at)
    at += 2
    while state_id != 0xFFFF:
        (size,) = struct.unpack_from(">i", data, at)
        key_offset = at + 4
        yield state_id, key_offset
        (value_size,) = struct.unpack_from(">i", data, key_offset + size)
        at = key_offset + size + 4 + value_size
        if data[key_offset] & 0x80:
            (state_id,) = struct.unpack_from(">H", data, at)
            at += 2


def key_group_of(flink: Flink, key: bytes) -> int:
    """Return Flink's key group of a `Long`."""
    (number,) = struct.unpack(">Q", key)
    (code,) = struct.unpack(">i", struct.pack(">I", (number ^ number >> 32) & 0xFFFFFFFF))
    group: int = flink.key_groups(hashes=[(code, 128)])["groups"][0]
    return group


@pytest.mark.parametrize(
    ("job", "kind", "shape", "error", "message"),
    [
        slow(graph("typed", 3, HashMap=1), "native", {"max_parallelism": ["64"]}, UnsupportedError, "--type canonical"),
        (everything(3, raw_keyed=1), "canonical", {"max_parallelism": ["1000"]}, UnsupportedError, "raw keyed"),
        slow(everything(3, raw_keyed=1), "canonical", {"max_parallelism": ["64"]}, UnsupportedError, "raw keyed"),
        (graph("windows", 3), "canonical", {"max_parallelism": ["256", "all=256"]}, RequestError, "one subtask"),
        slow(everything(3), "canonical", {"max_parallelism": ["2"]}, RequestError, "at most 2"),
        slow(
            everything(3),
            "canonical",
            {"parallelism": ["65"], "max_parallelism": ["64"]},
            RequestError,
            "at most 64",
        ),
        *(
            slow(keyed(2, 128, name), "canonical", {"max_parallelism": ["1000"]}, UnsupportedError, "divides the old")
            for name in UNKNOWN_KEYS
        ),
    ],
    ids=lambda value: value.scenario if isinstance(value, Job) else None,
)
def test_impossible_max_parallelism_is_refused_by_the_plan(
    flink_1_20: Flink,
    tmp_path: Path,
    job: Job,
    kind: str,
    shape: dict[str, Sequence[str]],
    error: type[Exception],
    message: str,
) -> None:
    source = flink_1_20.snapshot(job, tmp_path / "source", kind)
    with pytest.raises(error, match=message):
        rescale_snapshot(str(source), str(tmp_path / "target"), **shape)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


@pytest.mark.parametrize("max_parallelism", ["1000", slow("64")])
def test_flipped_bit_in_a_key_is_found(flink: Flink, tmp_path: Path, max_parallelism: str) -> None:
    source = flink.snapshot(BY_LONG, tmp_path / "source")
    record = next(records(source))
    assert key_group_of(flink, record.key) == record.key_group
    record.write_key(bytes((*record.key[:-1], record.key[-1] ^ 1)))
    with pytest.raises(IntegrityError) as raised:
        rescale_snapshot(str(source), str(tmp_path / "target"), max_parallelism=[max_parallelism])
    _assert_names(raised.value, flink, record)
    assert not (tmp_path / "target" / "_metadata").exists()


@pytest.mark.parametrize("max_parallelism", [slow("1000"), "64"])
def test_records_in_foreign_key_groups_are_found(flink: Flink, tmp_path: Path, max_parallelism: str) -> None:
    source = flink.snapshot(BY_LONG, tmp_path / "source")
    first, last = next(records(source)), list(records(source))[-1]
    assert first.key_group != last.key_group
    keys = first.key, last.key
    first.write_key(keys[1])
    last.write_key(keys[0])
    with pytest.raises(IntegrityError) as raised:
        rescale_snapshot(str(source), str(tmp_path / "target"), max_parallelism=[max_parallelism])
    _assert_names(raised.value, flink, first if keys[1].hex() in str(raised.value) else last)
    assert not (tmp_path / "target" / "_metadata").exists()


def _assert_names(error: IntegrityError, flink: Flink, record: Record) -> None:
    """Check that the error names operator, state, key and both key groups."""
    assert error.operator in ("by Long", operator_id_of_uid("by Long"))
    assert error.state == "sum"
    assert record.key.hex() in str(error)
    assert f"key group {record.key_group} " in str(error.expected)
    assert str(error.found) == f"key group {key_group_of(flink, record.key)}"


@pytest.mark.slow
def test_process_that_finds_a_flipped_bit_ends_with_exit_code_4_and_publishes_nothing(
    flink_1_20: Flink, tmp_path: Path
) -> None:
    source = flink_1_20.snapshot(BY_LONG, tmp_path / "source")
    record = next(records(source))
    record.write_key(bytes((*record.key[:-1], record.key[-1] ^ 1)))
    target = tmp_path / "target"
    arguments = ["run", str(source), "--target", str(target), "--max-parallelism", "1000", "--output", "json"]
    process = in_a_process(*arguments)
    assert process.returncode == 4, process.stderr
    assert "Traceback" not in process.stderr
    answer = json.loads(process.stdout)
    assert (answer["error"], answer["state"]) == ("IntegrityError", "sum")
    assert record.key.hex() in json.dumps(answer)
    assert not (target / "_metadata").exists()
