"""Damaged RocksDB directories: an error names the file, or nothing is missing in the result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rescale.plan.plan import Plan
from rescale.snapshot.reading.opening import open_snapshot
from rescale.text.errors import RescaleError
from support import warm
from support.edited import edit, edit_files, relocated
from support.faults import Faults
from support.pipeline import execute_without_spark, plan_rescale
from support.rekeyed import contents
from support.slow import Share, in_shares

NAME = "2-rocksdb-native"
FILE_KINDS = ["000019.sst", "000021.sst", "MANIFEST", "OPTIONS", "CURRENT"]
REHASH = {"parallelism": ["3"], "max_parallelism": ["40"], "format": "canonical"}
PLACE_COUNT = 9
"""Number of places that are damaged in each file."""

State = list[tuple[int, bytes]]


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a snapshot of one operator with two RocksDB directories."""
    directory = relocated(NAME, tmp_path_factory.mktemp("whole"))
    with_databases = {o.operator_id for o in open_snapshot(str(directory)).operators if o.databases}
    edit(
        directory,
        lambda metadata: replace(
            metadata, operators=tuple(o for o in metadata.operators if o.operator_id in with_databases)
        ),
    )
    return directory


@pytest.fixture(scope="module")
def state(intact: Path) -> State:
    """Return the state in a canonical result of the undamaged snapshot."""
    plan = plan_for(intact)
    execute_without_spark(plan)
    return keyed_state(plan)


@pytest.fixture
def source(intact: Path, tmp_path: Path) -> Path:
    return shutil.copytree(intact, tmp_path / "source")


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the scratch directory for fetched files, and check that nothing stays in it."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def plan_for(source: Path, **shape: object) -> Plan:
    target = source.parent / "target"
    for directory in (target, Path(f"{target}.rescale")):
        shutil.rmtree(directory, ignore_errors=True)
    return plan_rescale(str(source), str(target), **(shape or REHASH))  # type: ignore[arg-type]


def keyed_state(plan: Plan) -> State:
    snapshot = open_snapshot(plan.target)
    return [group for operator in snapshot.operators for s in operator.keyed for group in contents(snapshot, s)]


def outcome(source: Path, **shape: object) -> Plan | RescaleError:
    """Return the plan that was executed, or the Rescale error that stopped it; then nothing is published."""
    try:
        plan = plan_for(source, **shape)
        execute_without_spark(plan)
    except RescaleError as error:
        assert not (source.parent / "target" / "_metadata").exists()
        return error
    return plan


def bit_flip(at: int) -> Callable[[bytes], bytes]:
    def flip(data: bytes) -> bytes:
        position = at % len(data)
        return data[:position] + bytes([data[position] ^ 1 << at % 8]) + data[position + 1 :]

    return flip


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_flipped_bit_changes_nothing_or_is_refused_with_the_file_named(
    kind: str, intact: Path, state: State, tmp_path: Path
) -> None:
    error_count = 0
    size = next(path.stat().st_size for path in edit_files(intact, kind, lambda data: data))
    for number, position in enumerate(range(3, size, max(1, size // PLACE_COUNT))):
        source = shutil.copytree(intact, tmp_path / f"{number}" / "source")
        damaged_paths = edit_files(source, kind, bit_flip(position))
        result = outcome(source)
        if isinstance(result, Plan):
            assert keyed_state(result) == state, f"at {position}"
            continue
        error_count += 1
        assert result.exit_code == 3, result
        assert result.operator == "clicks-per-user"
        assert result.path in {str(path) for path in damaged_paths}, str(result)
    assert error_count or kind == "OPTIONS"


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_cut_file_is_refused_with_its_name(kind: str, source: Path, intact: Path, state: State, tmp_path: Path) -> None:
    """The handle has the new size, or the old one, which the plan notices. Only the end of OPTIONS may be missing."""
    for cut_index in (0, 1, 2):
        copy = shutil.copytree(intact, tmp_path / f"{cut_index}" / "source")
        damaged_paths = edit_files(
            copy, kind, lambda data, cut_index=cut_index: data[: [0, len(data) // 2, -1][cut_index]]
        )
        result = outcome(copy)
        if isinstance(result, Plan):
            assert kind == "OPTIONS", "only OPTIONS may be cut"
            assert keyed_state(result) == state
            continue
        assert result.exit_code == 3, result
        assert result.path in {str(path) for path in damaged_paths}, result
    (path, *_) = edit_files(source, kind, lambda data: data)
    path.write_bytes(path.read_bytes()[:-1])
    for shape in ({}, {"format": "keep"}):
        result = outcome(source, **shape)
        assert isinstance(result, RescaleError)
        assert (result.exit_code, result.path) == (3, str(path))


@pytest.mark.parametrize("kind", FILE_KINDS)
def test_missing_file_is_refused_with_its_name(kind: str, source: Path) -> None:
    (path, *_) = edit_files(source, kind, lambda data: data)
    path.unlink()
    for shape in ({}, {"format": "keep"}):
        error = outcome(source, **shape)
        assert isinstance(error, RescaleError)
        assert error.exit_code == 3
        assert str(path) in str(error)


@pytest.mark.parametrize("kind", [kind for kind in FILE_KINDS if not kind.endswith(".sst")])
def test_damage_outside_of_sst_files_is_copied(kind: str, source: Path) -> None:
    (path, *_) = edit_files(source, kind, bit_flip(11))
    result = outcome(source, format="keep")
    assert isinstance(result, Plan)
    metadata = (Path(result.target) / "_metadata").read_bytes()
    assert path.read_bytes() in metadata or any(
        path.read_bytes() == copy.read_bytes() for copy in Path(result.target).iterdir()
    )


@pytest.mark.parametrize("kind", [kind for kind in FILE_KINDS if kind.endswith(".sst")])
def test_damaged_sst_file_is_not_copied(kind: str, source: Path) -> None:
    """RocksDB would notice the damaged block when the job reads one of its rows."""
    (path, *_) = edit_files(source, kind, bit_flip(11))
    error = outcome(source, format="keep")
    assert isinstance(error, RescaleError)
    assert (error.exit_code, error.path, error.operator) == (3, str(path), "clicks-per-user")
    assert not (source.parent / "target" / "_metadata").exists()


@in_shares
def test_flipped_bit_of_the_metadata_loses_nothing_without_a_warning(
    source: Path, state: State, share: Share[int]
) -> None:
    """A flipped bit ends in an error, changes nothing, or changes a handle's key groups, of which the plan warns."""
    metadata = source / "_metadata"
    data = metadata.read_bytes()
    result_count = 0
    for number, position in enumerate(share(range(0, len(data), max(1, len(data) // 90)))):
        metadata.write_bytes(bit_flip(position)(data))
        result = outcome(source)
        if isinstance(result, RescaleError):
            assert result.exit_code in (2, 3, 4), result
            continue
        result_count += 1
        handle_warnings = [
            warning for warning in result.warnings if "lie in no" in warning or "keyed state holds" in warning
        ]
        assert keyed_state(result) == state or handle_warnings, f"at {position}, the {number}th"
    assert result_count


def test_command_line_names_the_damaged_file_and_gives_the_message_of_rocksdb(source: Path, tmp_path: Path) -> None:
    (path, *_) = edit_files(source, "000019.sst", bit_flip(11))
    faults, target = Faults(str(tmp_path / "log")), tmp_path / "target"
    assert warm.rescale(["run", str(source), "--target", str(target), "--format", "canonical"], faults) == 3
    output = warm.output(faults)
    assert f"path: {path}" in output
    assert "operator: clicks-per-user" in output
    assert "RocksDB says: Corruption" in output
    assert "Traceback" not in output
    assert not target.exists()
