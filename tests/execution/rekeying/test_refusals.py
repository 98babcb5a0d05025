"""A record that is not where its key belongs stops a run before anything is written, and is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rescale.execution.steps import validate_published
from rescale.execution.tasks.in_process import InProcessTasks
from rescale.flink.key_groups import key_group_of_hash
from rescale.flink.keyed import composite_key
from rescale.flink.keyed.key_group_table import Framing
from rescale.flink.operator_id import operator_id_of_uid
from rescale.plan.plan import Plan
from rescale.runstate.places import places_of
from rescale.snapshot.model import Snapshot
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import IntegrityError, RequestError, RescaleError, UnsupportedError
from support import snapshots
from support.canonical import Record, read_group, write_group
from support.java_composites import Pojo
from support.java_values import HASHABLE_LEAVES
from support.pipeline import execute, execute_without_spark, plan_rescale
from support.snapshot_bytes import HIDING, keyed_header, keyed_state
from support.written import UID, write_savepoint

NAME, MAX_PARALLELISM = "2-clicks", 128


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return shutil.copytree(snapshots.directory(NAME), tmp_path / "source")


class Spoiled:
    """The largest keyed stream of a snapshot, and one of its key groups, whose content may change but not its size."""

    def __init__(self, source: Path) -> None:
        self.snapshot: Snapshot = open_snapshot(str(source))
        self.label, self.stream = max(
            ((o.label, s) for o in self.snapshot.operators for s in o.keyed if s.framing is Framing.CANONICAL),
            key=lambda largest: largest[1].extent.length,
        )
        self.path = Path(self.snapshot.files[self.stream.extent.file][0])
        present = [i for i, extent in enumerate(self.stream.groups) if extent is not None]
        self.index = present[len(present) // 2]

    @property
    def key_group(self) -> int:
        return self.stream.first_key_group + self.index

    def records(self) -> list[Record]:
        extent = self.stream.groups[self.index]
        assert extent is not None
        data = self.path.read_bytes()[extent.start : extent.start + extent.length]
        return [record for _, record in read_group(data, MAX_PARALLELISM)]

    def write(self, data: bytes) -> None:
        extent = self.stream.groups[self.index]
        assert extent is not None
        assert len(data) == extent.length
        content = bytearray(self.path.read_bytes())
        content[extent.start : extent.start + extent.length] = data
        self.path.write_bytes(content)

    def state(self, record: Record) -> str:
        assert self.stream.parsed is not None
        return self.stream.parsed.states[record.state].name


def refusal_of(plan: Plan, run: Callable[[Plan], object] = execute_without_spark) -> RescaleError:
    """Return the error of the run, after checking that it left nothing in the target and nothing staged."""
    with pytest.raises(RescaleError) as caught:
        run(plan)
    assert not Path(plan.target).exists()
    assert not list(Path(f"{plan.target}.rescale").glob("staging/*"))
    return caught.value


def plan_for(source: Path, max_parallelism: str, *key_hash: str) -> Plan:
    return plan_rescale(
        str(source), str(source.parent / "target"), max_parallelism=[max_parallelism], key_hash=key_hash
    )


def assert_names(error: RescaleError, spoiled: Spoiled, record: Record) -> None:
    assert (error.exit_code, error.operator, error.state) == (4, spoiled.label, spoiled.state(record))
    assert f"key bytes {record.key[:64].hex()}" in error.what
    assert f"in key group {spoiled.key_group};" in error.what


@pytest.mark.parametrize("max_parallelism", ["1000", "64"])
@pytest.mark.parametrize("run", [execute, execute_without_spark])
def test_flipped_bit_of_a_key_is_refused(max_parallelism: str, run: Callable[[Plan], object], source: Path) -> None:
    spoiled = Spoiled(source)
    records = spoiled.records()
    index = next(i for i, record in enumerate(records) if record.key[0] > 3)
    old_record = records[index]
    assert spoiled.stream.parsed is not None
    changed_record = old_record._replace(key=old_record.key[:2] + bytes([old_record.key[2] ^ 1]) + old_record.key[3:])
    spoiled.write(
        write_group(spoiled.key_group, [*records[:index], changed_record, *records[index + 1 :]], MAX_PARALLELISM)
    )
    error = refusal_of(plan_for(source, max_parallelism), run)
    assert isinstance(error, IntegrityError)
    assert_names(error, spoiled, changed_record)
    assert error.expected == f"key group {spoiled.key_group} of 128"
    assert error.found != error.expected.removesuffix(" of 128")


@pytest.mark.parametrize("max_parallelism", ["1000", "64"])
def test_damaged_length_of_a_key_is_refused(max_parallelism: str, source: Path) -> None:
    """The text claims one character more than it has, so the key ends inside of what follows."""
    spoiled = Spoiled(source)
    first, *rest = spoiled.records()
    changed_record = first._replace(key=bytes([first.key[0] + 1]) + first.key[1:])
    spoiled.write(write_group(spoiled.key_group, [changed_record, *rest], MAX_PARALLELISM))
    assert_names(refusal_of(plan_for(source, max_parallelism)), spoiled, changed_record)


@pytest.mark.parametrize("max_parallelism", ["1000", "64"])
def test_key_group_with_the_number_of_another_is_refused(max_parallelism: str, source: Path) -> None:
    """The error is about the framing of the key group, which is checked before any key is hashed."""
    spoiled = Spoiled(source)
    spoiled.write(write_group(spoiled.key_group ^ 1, spoiled.records(), MAX_PARALLELISM))
    error = refusal_of(plan_for(source, max_parallelism))
    assert (error.exit_code, error.path, error.operator) == (3, str(spoiled.path), spoiled.label)
    assert "a record of another key group" in error.what
    extent = spoiled.stream.groups[spoiled.index]
    assert extent is not None
    assert error.offset == extent.start


@pytest.mark.parametrize("max_parallelism", ["1000", "64"])
def test_record_in_a_foreign_key_group_is_refused(max_parallelism: str, source: Path) -> None:
    """Two records of the same length change places; each has the number of the key group that it lies in."""
    spoiled = Spoiled(source)
    own_records = spoiled.records()
    other = Spoiled(source)
    for index in (i for i, extent in enumerate(other.stream.groups) if extent is not None and i != spoiled.index):
        other.index = index
        other_records = other.records()
        indices = next(
            (
                (i, j)
                for i, a in enumerate(own_records)
                for j, b in enumerate(other_records)
                if a.state == b.state and len(a.key) == len(b.key) and len(a.value) == len(b.value) and a.key != b.key
            ),
            None,
        )
        if indices is not None:
            break
    assert indices is not None
    i, j = indices
    own_records[i], other_records[j] = other_records[j], own_records[i]
    spoiled.write(write_group(spoiled.key_group, own_records, MAX_PARALLELISM))
    other.write(write_group(other.key_group, other_records, MAX_PARALLELISM))
    error = refusal_of(plan_for(source, max_parallelism))
    assert isinstance(error, IntegrityError)
    found_in = spoiled if own_records[i].key.hex() in error.what else other
    assert_names(error, found_in, own_records[i] if found_in is spoiled else other_records[j])
    assert error.expected == f"key group {found_in.key_group} of 128"
    assert error.found == f"key group {(other if found_in is spoiled else spoiled).key_group}"


@pytest.mark.parametrize("max_parallelism", ["1000", "64"])
def test_user_function_with_other_hashes_is_refused(
    max_parallelism: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source.parent / "hashes_of_mine.py").write_text("def size(key):\n    return len(key)\n")
    monkeypatch.syspath_prepend(str(source.parent))
    error = refusal_of(plan_for(source, max_parallelism, "clicks-per-user=hashes_of_mine:size"))
    assert isinstance(error, IntegrityError)
    assert "does not give the key group" in error.what
    assert "--key-hash" in str(error.advice)


def test_failing_user_function_is_a_request_error(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source.parent / "hashes_that_fail.py").write_text("def none(key):\n    raise KeyError(key)\n")
    monkeypatch.syspath_prepend(str(source.parent))
    error = refusal_of(plan_for(source, "1000", "clicks-per-user=hashes_that_fail:none"))
    assert isinstance(error, RequestError)
    assert "hashes_that_fail:none fails on the key" in error.what


@pytest.mark.parametrize("max_parallelism", ["1000", "64"])
def test_hash_rule_that_is_wrong_for_a_single_key_is_refused(
    max_parallelism: str, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Java's hash of a single text were different, the first record with that key would show it."""
    spoiled = Spoiled(source)
    key = spoiled.records()[0].key
    right_rule = composite_key.walk_keys

    def wrong_rule(program: object, data: object, starts: object, limits: object) -> object:
        walk = right_rule(program, data, starts, limits)  # type: ignore[arg-type]
        for i, (start, limit) in enumerate(zip(starts.tolist(), limits.tolist(), strict=True)):  # type: ignore[attr-defined]
            if walk.hash_codes is not None and data[start:limit].tobytes() == key:  # type: ignore[index]
                walk.hash_codes[i] ^= 1
        return walk

    monkeypatch.setattr(composite_key, "walk_keys", wrong_rule)
    error = refusal_of(plan_for(source, max_parallelism))
    assert isinstance(error, IntegrityError)
    assert f"key bytes {key[:64].hex()}" in error.what


ORDER = Pojo({"id": HASHABLE_LEAVES["Int"], "town": HASHABLE_LEAVES["String"]}, 1, 31, ["id", "town"])
"""A class of the user's own whose `hashCode` is `Objects.hash(id, town)`."""


@pytest.fixture
def orders_savepoint(tmp_path: Path) -> Path:
    """Return a savepoint keyed by orders that differ enough to tell how they hash."""
    groups: dict[int, list[Record]] = {}
    for number in range(200):
        order = (number // 7, tuple(f"town {number % 7}".encode()))
        key_group = key_group_of_hash(ORDER.code(order), MAX_PARALLELISM)
        groups.setdefault(key_group, []).append(Record(0, ORDER.write(order) + b"\0", bytes(8)))
    header = keyed_header(keyed_state("total"), key=ORDER.snapshot)
    return Path(write_savepoint(tmp_path / "source", header, groups, 2, MAX_PARALLELISM))


@pytest.mark.parametrize("max_parallelism", ["1000", "64"])
@pytest.mark.parametrize("formula", ["objects-hash(town,id)", "objects-hash(id)", "lombok(id,town)", "3x31(id,town)"])
def test_wrong_hash_formula_is_refused(formula: str, max_parallelism: str, orders_savepoint: Path) -> None:
    """The plan believes a formula that the user names; the first record with another key group stops the run."""
    error = refusal_of(plan_for(orders_savepoint, max_parallelism, formula))
    assert isinstance(error, IntegrityError)
    assert (error.operator, error.state) == (operator_id_of_uid(UID), "total")
    assert "the hash of a key does not give the key group that contains it: key bytes 02" in error.what
    assert str(error.expected).endswith(" of 128")
    assert str(error.found).startswith("key group ")


@pytest.mark.parametrize("run", [execute, execute_without_spark])
def test_more_states_than_can_be_told_apart_are_refused(run: Callable[[Plan], object], tmp_path: Path) -> None:
    """The serializer of the first state hides how many follow; their number alone is no damage."""
    for number, state_count in enumerate((64, 65)):
        header = keyed_header(*(keyed_state(f"state {i}", HIDING) for i in range(state_count)))
        records = [Record(i, b"\2k\0", bytes(8)) for i in range(state_count)]
        source = Path(write_savepoint(tmp_path / f"{number}" / "source", header, {70: records}, 1, MAX_PARALLELISM))
        plan = plan_for(source, "64")
        if state_count == 64:
            run(plan)
            continue
        error = refusal_of(plan, run)
        assert isinstance(error, UnsupportedError)
        assert (error.exit_code, error.operator, error.found) == (3, operator_id_of_uid(UID), "a record of state 64")
        assert "keep the max parallelism" in str(error.advice)


def test_hash_formula_that_fits_is_certified_as_tested(orders_savepoint: Path) -> None:
    plan = plan_for(orders_savepoint, "1000")
    assert set(plan.key_hashes.values()) == {"objects-hash(id,town)"}
    execute_without_spark(plan)
    certificate = json.loads(Path(places_of(plan).certificate).read_text())
    (records,) = [operator["records"] for operator in certificate["operators"]]
    assert (records["key_hash"], records["hash_is"]) == ("objects-hash(id,town)", "tested, not known")
    assert (records["compared"], records["distinct_keys_at_least"]) == (200, 200)


def test_validation_takes_the_hash_formula_from_the_certificate(
    orders_savepoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The certificate names the formula of the run, so no others are tried."""
    plan = plan_for(orders_savepoint, "1000", "objects-hash(id,town)")
    execute_without_spark(plan)
    monkeypatch.setattr("rescale.flink.keys.key_hash.candidate_hashes", lambda _: iter([]))
    second_certificate = validate_published(plan.source, plan.target, InProcessTasks())
    (records,) = [operator.records for operator in second_certificate.operators]
    assert (records.key_hash, records.compared) == ("objects-hash(id,town)", 200)
    with pytest.raises(IntegrityError, match="hash of a key"):
        validate_published(plan.source, plan.target, InProcessTasks(), key_hash=["lombok(id,town)"])
    Path(places_of(plan).certificate).unlink()
    with pytest.raises(UnsupportedError):
        validate_published(plan.source, plan.target, InProcessTasks())


def test_validation_does_not_call_a_function_that_only_the_certificate_names(
    orders_savepoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may have written the certificate. The error names the function, for a user who trusts it."""
    (tmp_path / "orders_hash.py").write_text(
        "def code(key):\n"
        "    code = 31 * (31 + int.from_bytes(key[2:6], 'big', signed=True))\n"
        "    hashed = 0\n"
        "    for letter in key[8:]:\n"
        "        hashed = 31 * hashed + letter\n"
        "    return (code + hashed) & 0xFFFFFFFF\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    plan = plan_for(orders_savepoint, "1000", "orders_hash:code")
    execute_without_spark(plan)
    monkeypatch.setattr("rescale.flink.keys.key_hash.candidate_hashes", lambda _: iter([]))
    with pytest.raises(UnsupportedError) as raised:
        validate_published(plan.source, plan.target, InProcessTasks())
    assert "--key-hash orders_hash:code" in (raised.value.advice or "")
    second_certificate = validate_published(plan.source, plan.target, InProcessTasks(), key_hash=["orders_hash:code"])
    assert [operator.records.compared for operator in second_certificate.operators] == [200]
