"""The user gives the hash of keys as a formula or a function, which is checked with the key group of each record."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle.harness import Flink
from oracle.key_types import keyed
from rescale.text.errors import IntegrityError, RequestError
from support.pipeline import rescale_snapshot, shared_spark
from support.slow import slow

ADDRESS_TYPE = "POJO by Objects.hash"
SECRET_TYPE = "POJO beyond guessing"

MODULE_CODE = '''
def secret(key):
    """number ^ Integer.rotateLeft(word.hashCode(), 7), of a PojoSerializer's bytes: flags, number, word."""
    at, number, word = 7, int.from_bytes(key[2:6], "big"), 0
    size, at = varint(key, at)
    for _ in range(size - 1):
        unit, at = varint(key, at)
        word = (31 * word + unit) % 2**32
    return number ^ (word << 7 | word >> 25) % 2**32


def wrong(key):
    return secret(key) ^ 1


def varint(key, at):
    value = shift = 0
    while key[at] & 0x80:
        value |= (key[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | key[at] << shift, at + 1
'''


def test_right_formula_is_accepted(flink: Flink, tmp_path: Path) -> None:
    job = keyed(2, 128, ADDRESS_TYPE, "Long")
    source, target = str(flink.snapshot(job, tmp_path / "source")), str(tmp_path / "target")
    formula = f"by {ADDRESS_TYPE}=objects-hash(area,number,town)"
    rescale_snapshot(source, target, max_parallelism=["1000"], key_hash=[formula])
    verdict = flink.restore(target, job, job.with_(max_parallelism=1000))
    assert verdict.ok, verdict


@pytest.fixture(scope="module")
def address_savepoint(flink_1_20: Flink, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a savepoint of a job that is keyed by addresses."""
    return str(flink_1_20.snapshot(keyed(2, 128, ADDRESS_TYPE), tmp_path_factory.mktemp("addresses")))


@pytest.mark.parametrize(
    "key_hash", ["objects-hash(number,area,town)", slow("lombok(area,number,town)"), slow("record(town)")]
)
def test_wrong_formula_is_refused_by_its_records(address_savepoint: str, tmp_path: Path, key_hash: str) -> None:
    with pytest.raises(IntegrityError, match="key group"):
        rescale_snapshot(address_savepoint, str(tmp_path / "target"), max_parallelism=["1000"], key_hash=[key_hash])
    assert not (tmp_path / "target" / "_metadata").exists()


@pytest.mark.parametrize("key_hash", ["objects-hash(area,town,street)", "objects-hash(area)(town)", "java", "my hash"])
def test_impossible_formula_is_refused_by_the_plan(address_savepoint: str, tmp_path: Path, key_hash: str) -> None:
    with pytest.raises(RequestError):
        rescale_snapshot(address_savepoint, str(tmp_path / "target"), max_parallelism=["1000"], key_hash=[key_hash])
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def module_name(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the name of a module with hash functions, after adding it to the running Spark."""
    path = tmp_path_factory.mktemp("modules") / "hashes_of_ours.py"
    path.write_text(MODULE_CODE)
    shared_spark().context.addPyFile(str(path))
    return path.stem


@pytest.mark.slow
def test_function_of_the_user_is_accepted_if_it_is_right(flink: Flink, tmp_path: Path, module_name: str) -> None:
    job = keyed(2, 128, SECRET_TYPE, "Long")
    source = str(flink.snapshot(job, tmp_path / "source"))
    with pytest.raises(IntegrityError, match="key group"):
        _rescale_with(f"{module_name}:wrong", source, tmp_path / "wrong")
    assert not (tmp_path / "wrong" / "_metadata").exists()
    _rescale_with(f"{module_name}:secret", source, tmp_path / "target")
    verdict = flink.restore(tmp_path / "target", job, job.with_(max_parallelism=1000, backend="rocksdb"))
    assert verdict.ok, verdict


def _rescale_with(function: str, source: str, target: Path) -> None:
    key_hashes = [f"by {SECRET_TYPE}={function}"]
    rescale_snapshot(source, str(target), max_parallelism=["1000"], key_hash=key_hashes, tasks=shared_spark())
