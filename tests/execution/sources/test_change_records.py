"""Changes between checkpoints of databases that the RocksDB of real Flink releases wrote.

A model repeats each round of random rows, merges, deletes, range tombstones, flushes and compactions. The changes that
are read are those of the model; they may also have keys that were written with an unchanged value. Laid over the
earlier rows, the changes give the rows of the model.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from oracle.distribution import LINES
from rescale.execution.sources.change_records import ChangeReader
from rescale.flink.key_groups import KeyGroupRange
from rescale.flink.keyed.blocks.records import Records
from rescale.flink.keyed.header import KeyedHeader
from rescale.rocksdb.assembly.new_database import continued_manifest, new_manifest, place_of_changes
from rescale.rocksdb.engine import directory
from rescale.rocksdb.manifest.compactions import RewrittenFiles, rewritten_files
from rescale.rocksdb.manifest.version_edit import DELETION, VALUE
from rescale.snapshot.keyed_state import DatabaseFile
from rescale.snapshot.locate import Extent
from rescale.snapshot.places import ChangePlace, ChangeSide, DatabasePlace, PassedFile
from rescale.snapshot.snapshot_files import SnapshotFiles
from rescale.text.errors import SnapshotError
from support.assembled import (
    SMALL,
    STATES,
    Model,
    Part,
    apply,
    check,
    check_further_writes,
    check_our_reading,
    random_steps,
    within,
)
from support.databases import databases
from support.flinks_rocksdb import FlinksRocksdb
from support.layers import CREATED, Change, changes_between, lay_out, tables_of
from support.slow import slow_but

Side = ChangeSide[KeyedHeader | None]

ALL_KEY_GROUPS = KeyGroupRange(0, 127)
ROUNDS = 4


@pytest.fixture(scope="module", params=[LINES["1.20"], LINES["2"]])
def library(request: pytest.FixtureRequest) -> Iterator[FlinksRocksdb]:
    library = FlinksRocksdb(request.param)
    yield library
    library.close()


def header_of(states: Sequence[str]) -> KeyedHeader:
    """Return a header with value states of these names."""
    header = databases("2-rocksdb-incremental")[0].header
    return replace(header, states=tuple(replace(header.states[0], name=state) for state in states))


class Checkpoints:
    """Checkpoints of one database; a file is the same in all checkpoints that list its name."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        files = [("", None), *((str(file), None) for path in paths for file in sorted(path.iterdir()))]
        self.files = SnapshotFiles(tuple(files))
        self._index_by_uri = {uri: file_index for file_index, (uri, _) in enumerate(files)}

    def side(self, checkpoint_index: int, other_index: int, states: Sequence[str] = STATES) -> Side:
        own_files, other_files = (
            {file.name for file in self._paths[index].glob("*.sst")} for index in (checkpoint_index, other_index)
        )
        files = tuple(
            DatabaseFile(file.name, Extent(self._index_by_uri[str(file)], 0, file.stat().st_size))
            for file in sorted(self._paths[checkpoint_index].iterdir())
        )
        database = DatabasePlace[KeyedHeader | None](
            header_of(states), (ALL_KEY_GROUPS.first, ALL_KEY_GROUPS.last), files
        )
        return ChangeSide(database, tuple(own_files - other_files))

    def place(self, earlier_index: int, later_index: int) -> ChangePlace[KeyedHeader | None]:
        return change_place(self.side(earlier_index, later_index), self.side(later_index, earlier_index))

    def place_without_compactions(self, earlier_index: int, later_index: int) -> ChangePlace[KeyedHeader | None]:
        """Leave out files that only compactions have rewritten, and add the files of checkpoints in between."""
        earlier, *between, later = (self._paths[index] for index in range(earlier_index, later_index + 1))
        files_between = {file.name: file for path in between for file in path.glob("*.sst")}
        sizes = {name: file.stat().st_size for name, file in files_between.items()}
        manifests = (next(path.glob("MANIFEST-*")).read_bytes() for path in (earlier, later))
        rewritten = rewritten_files(*manifests, STATES, sizes, "MANIFEST")
        place = self.place(earlier_index, later_index)
        assert place.before is not None
        assert place.after is not None
        before_side, after_side = (
            side._replace(files_to_read=tuple(set(side.files_to_read) - rewritten.names))
            for side in (place.before, place.after)
        )
        transient = (
            PassedFile(state, name, Extent(self._index_by_uri[str(files_between[name])], 0, sizes[name]))
            for state, name in rewritten.transient_tables
        )
        return structs.replace(place, before=before_side, after=after_side, transient=tuple(transient))


def change_place(
    before: Side | None, after: Side | None, key_groups: tuple[int, int] = (ALL_KEY_GROUPS.first, ALL_KEY_GROUPS.last)
) -> ChangePlace[KeyedHeader | None]:
    return ChangePlace(header_of(STATES), key_groups, before, after)


def copy_of_model(model: Model) -> Model:
    return {state: dict(rows) for state, rows in model.items()}


NewValues = dict[str, dict[bytes, bytes | None]]
"""New values by state and key; None for a deletion."""


def changes_by_state(reader: ChangeReader, states: Sequence[str] = STATES) -> NewValues:
    changes: NewValues = {state: {} for state in states}
    for batch in reader:
        for state, (key, value) in zip(batch.state_ids.tolist(), rows_of(batch, prefix=1), strict=True):
            assert key not in changes[states[state]], "a key is changed twice"
            changes[states[state]][key] = value[1:] if value[0] == VALUE else None
            assert value[0] == VALUE or value == bytes([DELETION])
    return changes


def new_values(before: Model, after: Model) -> NewValues:
    return {
        state: {change.key: change.after for change in state_changes}
        for state, state_changes in changes_between(before, after).items()
    }


def check_changes(changes: NewValues, before: Model, after: Model, steps: Sequence[tuple[Any, ...]]) -> None:
    """Check that `changes` has every change, and besides them only keys that `steps` put or deleted, with values."""
    written_keys = {(state, key) for verb, state, key, *_ in (step for step in steps if step[0] in ("put", "delete"))}
    for state, expected in new_values(before, after).items():
        assert expected.items() <= changes[state].items()
        for key in changes[state].keys() - expected.keys():
            assert (state, key) in written_keys
            assert changes[state][key] == after[state].get(key)


def rows_of(records: Records, prefix: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key with its key group, value) of each record."""
    for start, limit, end in zip(records.key_starts, records.key_ends, records.ends, strict=True):
        yield bytes(records.data[start - prefix : limit]), bytes(records.data[limit + 4 : end])


@pytest.mark.parametrize("seed", slow_but(lambda seed: seed < 2, range(6)))
def test_changes_between_checkpoints_of_random_databases_are_those_of_the_model(
    library: FlinksRocksdb, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Odd seeds fetch the files in parts, as from S3."""
    if seed % 2:
        monkeypatch.setattr(directory, "_is_whole_local_file", lambda _: False)
        monkeypatch.setattr(directory, "SMALLEST_PARTIAL_BYTES", 0)
    rng = random.Random(seed)
    paths, models = [tmp_path / f"checkpoint-{number}" for number in range(ROUNDS + 1)], []
    writes = []
    model: Model = {state: {} for state in STATES}
    options = SMALL if rng.random() < 0.7 else "disable_auto_compactions=1"
    with library.opened(tmp_path / "job", STATES, options) as database:
        for number, path in enumerate(paths):
            steps = random_steps(rng, ALL_KEY_GROUPS, 128, rng.choice([0, 40, 400]) if number else 1500)
            apply(model, steps)
            database.write(steps)
            if rng.random() < 0.3:
                database.write([("flush",), *(("compact", state) for state in STATES)])
            database.write([("checkpoint", path)])
            models.append(copy_of_model(model))
            writes.append(steps)
    checkpoints = Checkpoints(paths)
    for last in range(1, ROUNDS + 1):
        reader = ChangeReader(128, checkpoints.files, checkpoints.place_without_compactions(0, last), check_every=3)
        later_steps = [step for steps in writes[1 : last + 1] for step in steps]
        check_changes(changes_by_state(reader), models[0], models[last], later_steps)
    rows = {state: [Change(key, None, value) for key, value in sorted(models[0][state].items())] for state in STATES}
    tables = {state: tables_of(row_changes, 0, state) for state, row_changes in rows.items()}
    manifest = new_manifest(
        {state: [table for table, _ in state_tables] for state, state_tables in tables.items()}, CREATED
    )
    files = dict(
        zip(manifest.files, [data for state_tables in tables.values() for _, data in state_tables], strict=True)
    )
    for number in range(1, ROUNDS + 1):
        for place_of in (checkpoints.place, checkpoints.place_without_compactions):
            reader = ChangeReader(128, checkpoints.files, place_of(number - 1, number), check_every=seed % 3)
            changes = changes_by_state(reader)
            check_changes(changes, models[number - 1], models[number], writes[number])
        place = place_of_changes(manifest)
        assert place is not None
        tables = {
            state: tables_of(
                [Change(key, None, value_by_key[key]) for key in sorted(value_by_key)],
                place.sequence,
                f"{number}-{state}",
            )
            for state, value_by_key in changes.items()
        }
        before = manifest.files
        manifest = continued_manifest(
            manifest,
            {state: [table for table, _ in state_tables] for state, state_tables in tables.items()},
            place,
            CREATED,
        )
        names = [name for name in manifest.files if name not in before]
        files |= zip(names, [data for state_tables in tables.values() for _, data in state_tables], strict=True)
        path = tmp_path / f"result-{number}"
        lay_out(path, manifest, files)
        part = Part(path, ALL_KEY_GROUPS, STATES, models[number])
        check_our_reading(part, 128, tmp_path)
    check(library, part)
    check_further_writes(library, part, 128, rng)


@pytest.mark.parametrize("seed", slow_but(lambda seed: seed < 2, range(8)))
def test_changes_to_a_checkpoint_that_does_not_descend_from_the_earlier_are_found(
    library: FlinksRocksdb, tmp_path: Path, seed: int
) -> None:
    """The job was restored from before the earlier checkpoint, and reused its file numbers and sequence numbers."""
    rng = random.Random(seed)
    common, earlier, later = (tmp_path / name for name in ("common", "earlier", "later"))
    model: Model = {state: {} for state in STATES}
    steps = random_steps(rng, ALL_KEY_GROUPS, 128, 1500)
    apply(model, steps)
    with library.opened(tmp_path / "job", STATES, SMALL) as database:
        database.write([*steps, ("flush",), *(("compact", state) for state in STATES), ("checkpoint", common)])
    models, steps = [], []
    for path in (earlier, later):
        shutil.copytree(common, tmp_path / f"life-{path.name}")
        models.append(copy_of_model(model))
        steps = random_steps(rng, ALL_KEY_GROUPS, 128, rng.choice([40, 400]))
        apply(models[-1], steps)
        with library.opened(tmp_path / f"life-{path.name}", STATES, SMALL) as database:
            compactions = [("compact", state) for state in STATES] if rng.random() < 0.5 else []
            database.write([*steps, ("flush",), *compactions, ("checkpoint", path)])
    checkpoints = Checkpoints([earlier, later])
    place = checkpoints.place(0, 1)
    assert place.before is not None
    assert place.after is not None
    reused_names = {
        file.name
        for file in earlier.glob("*.sst")
        if (later / file.name).exists() and (later / file.name).read_bytes() != file.read_bytes()
    }
    sides = (
        side._replace(files_to_read=tuple({*side.files_to_read, *reused_names})) for side in (place.before, place.after)
    )
    manifests = (next(path.glob("MANIFEST-*")).read_bytes() for path in (earlier, later))
    assert rewritten_files(*manifests, STATES, {}, "MANIFEST") == RewrittenFiles(), (
        "a history leads from the earlier checkpoint to the later"
    )
    reader = ChangeReader(128, checkpoints.files, change_place(*sides), check_every=2)
    check_changes(changes_by_state(reader), models[0], models[1], steps)


def test_rows_flushed_and_compacted_between_two_checkpoints_are_changes(library: FlinksRocksdb, tmp_path: Path) -> None:
    """The rows are found in the checkpoint in between; the rest of the database is not read."""
    state, rng = STATES[0], random.Random(5)
    paths = [tmp_path / f"checkpoint-{number}" for number in range(3)]
    steps = [
        [("put", state, bytes([group]) + b"a", rng.randbytes(500)) for group in range(100)],
        [("put", state, b"\5a", b"1"), ("delete", state, b"\6a"), ("add", state, b"\7a", b"2")],
        [("delete_range", state, b"\x50", b"\x52"), ("put", state, b"\x50c", b"3")],
    ]
    model, models = Model({name: {} for name in STATES}), []
    with library.opened(tmp_path / "job", STATES, "disable_auto_compactions=1") as database:
        for number, (writes, path) in enumerate(zip(steps, paths, strict=True)):
            apply(model, writes)
            database.write([*([("compact", state)] if number == 2 else []), *writes, ("checkpoint", path)])
            models.append(copy_of_model(model))
    checkpoints = Checkpoints(paths)
    place = checkpoints.place_without_compactions(0, 2)
    assert len(place.transient) == 1
    assert place.size < checkpoints.place(0, 2).size / 10
    expected = new_values(models[0], models[2])
    assert changes_by_state(ChangeReader(128, checkpoints.files, place, check_every=1)) == expected
    reader_without_transient = ChangeReader(128, checkpoints.files, structs.replace(place, transient=()))
    assert changes_by_state(reader_without_transient) != expected
    place_of_other_state = structs.replace(
        place, transient=tuple(file._replace(state=STATES[1]) for file in place.transient)
    )
    with pytest.raises(SnapshotError, match="another state"):
        changes_by_state(ChangeReader(128, checkpoints.files, place_of_other_state))


@pytest.mark.parametrize("later_index", [1, 2])
def test_changed_row_may_be_as_large_as_in_a_full_run(library: FlinksRocksdb, tmp_path: Path, later_index: int) -> None:
    """The row lies in a new file, or in one that was compacted away before the later checkpoint."""
    state, value = STATES[0], bytes(65 << 20)
    paths = [tmp_path / f"checkpoint-{number}" for number in range(3)]
    puts = [("put", state, b"\4a", b"2"), ("put", state, b"\6a", value)]
    steps = [[("put", state, b"\5a", b"1")], puts, [("compact", state)]]
    with library.opened(tmp_path / "job", STATES, "disable_auto_compactions=1") as database:
        for writes, path in zip(steps, paths, strict=True):
            database.write([*writes, ("checkpoint", path)])
    checkpoints = Checkpoints(paths)
    place = checkpoints.place_without_compactions(0, later_index)
    assert len(place.transient) == later_index - 1
    reader = ChangeReader(128, checkpoints.files, place, check_every=1)
    assert changes_by_state(reader) == {state: {b"\4a": b"2", b"\6a": value}, **{other: {} for other in STATES[1:]}}


def test_all_rows_of_a_directory_that_one_side_lacks_are_changes(library: FlinksRocksdb, tmp_path: Path) -> None:
    rng = random.Random(7)
    steps = random_steps(rng, ALL_KEY_GROUPS, 128, 300)
    model: Model = {state: {} for state in STATES}
    apply(model, steps)
    with library.opened(tmp_path / "job", STATES, "") as database:
        database.write([*steps, ("checkpoint", tmp_path / "checkpoint")])
    checkpoints = Checkpoints([tmp_path / "checkpoint"])
    side = checkpoints.side(0, 0)
    empty: Model = {state: {} for state in STATES}
    for place, before, after in (
        (change_place(None, side), empty, model),
        (change_place(side, None), model, empty),
    ):
        assert changes_by_state(ChangeReader(128, checkpoints.files, place)) == new_values(before, after)
    half = KeyGroupRange(0, 63)
    changes = changes_by_state(ChangeReader(128, checkpoints.files, change_place(None, side, (0, 63))))
    assert {key[0] in half for values_by_key in changes.values() for key in values_by_key} == {True}


def test_all_rows_of_a_state_that_has_begun_or_ended_are_changes(library: FlinksRocksdb, tmp_path: Path) -> None:
    paths, models = [tmp_path / "checkpoint-0", tmp_path / "checkpoint-1"], []
    rng, model = random.Random(8), Model({state: {} for state in STATES})
    for number, path in enumerate(paths):
        states = STATES[: number + 1]
        steps = random_steps(rng, ALL_KEY_GROUPS, 128, 200, states)
        apply(model, steps)
        with library.opened(tmp_path / "job", states, "") as database:
            database.write([*steps, ("checkpoint", path)])
        models.append(copy_of_model(model))
    checkpoints = Checkpoints(paths)
    side_without_state, side_with_state = checkpoints.side(0, 1, STATES[:1]), checkpoints.side(1, 0)
    assert models[1][STATES[1]]
    for place, before, after in (
        (change_place(side_without_state, side_with_state), *models),
        (change_place(side_with_state, side_without_state), *models[::-1]),
    ):
        reader = ChangeReader(128, checkpoints.files, place)
        check_changes(changes_by_state(reader), before, after, steps)


def test_foreign_rows_that_a_compaction_drops_are_no_changes(library: FlinksRocksdb, tmp_path: Path) -> None:
    """After a scale-out, a directory still holds rows of key groups that another subtask has now."""
    paths, models = [tmp_path / "checkpoint-0", tmp_path / "checkpoint-1"], []
    rng, model = random.Random(9), Model({state: {} for state in STATES})
    foreign_deletes = [("delete_range", state, b"\x40", b"\x80") for state in STATES]
    with library.opened(tmp_path / "job", STATES, "disable_auto_compactions=1") as database:
        for path, last_steps in zip(paths, ([], foreign_deletes), strict=True):
            steps = [*random_steps(rng, KeyGroupRange(0, 63) if last_steps else ALL_KEY_GROUPS, 128, 400), *last_steps]
            apply(model, steps)
            database.write([*steps, *(("compact", state) for state in STATES if last_steps), ("checkpoint", path)])
            models.append(copy_of_model(model))
    checkpoints = Checkpoints(paths)
    sides = checkpoints.side(0, 1), checkpoints.side(1, 0)
    own_models = within(models[:1], KeyGroupRange(0, 63), 128), within(models[1:], KeyGroupRange(0, 63), 128)
    reader = ChangeReader(128, checkpoints.files, change_place(*sides, (0, 63)))
    assert changes_by_state(reader) == new_values(*own_models)
    reader_of_all = ChangeReader(128, checkpoints.files, change_place(*sides))
    assert changes_by_state(reader_of_all) == new_values(*models) != new_values(*own_models)


def test_change_records_hold_the_new_value_or_mark_a_deletion(library: FlinksRocksdb, tmp_path: Path) -> None:
    first, second = tmp_path / "checkpoint-0", tmp_path / "checkpoint-1"
    with library.opened(tmp_path / "job", STATES, "") as database:
        database.write([("put", STATES[0], b"\5a", b"1"), ("put", STATES[0], b"\5b", b"2"), ("checkpoint", first)])
        database.write([("put", STATES[0], b"\5a", b"3"), ("delete", STATES[0], b"\5b")])
        database.write([("put", STATES[1], b"\7", b""), ("checkpoint", second)])
    checkpoints = Checkpoints([first, second])
    reader = ChangeReader(128, checkpoints.files, checkpoints.place(0, 1))
    records = [
        (int(state), int(group), bytes(batch.data[start:limit]), bytes(batch.data[limit + 4 : end]))
        for batch in reader
        for start, limit, end, state, group in zip(
            batch.key_starts, batch.key_ends, batch.ends, batch.state_ids, batch.groups, strict=True
        )
    ]
    assert records == [(0, 5, b"a", b"\1" + b"3"), (0, 5, b"b", b"\0"), (1, 7, b"", b"\1")]


def test_damaged_block_raises_snapshot_error(library: FlinksRocksdb, tmp_path: Path) -> None:
    with library.opened(tmp_path / "job", STATES, "") as database:
        database.write(
            [*random_steps(random.Random(3), ALL_KEY_GROUPS, 128, 400), ("checkpoint", tmp_path / "checkpoint")]
        )
    table = max((tmp_path / "checkpoint").glob("*.sst"), key=lambda file: file.stat().st_size)
    data = bytearray(table.read_bytes())
    data[100] ^= 1
    table.unlink()
    table.write_bytes(data)
    checkpoints = Checkpoints([tmp_path / "checkpoint"])
    side = checkpoints.side(0, 0)._replace(files_to_read=(table.name,))
    place = change_place(side, side._replace(files_to_read=()))
    with pytest.raises(SnapshotError) as caught:
        changes_by_state(ChangeReader(128, checkpoints.files, place))
    assert caught.value.path == str(table)
