"""RocksDB directories that are assembled from files of other databases, and random databases as their sources."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rescale.flink.key_groups import KeyGroupRange, key_group_range, prefix_size
from rescale.rocksdb.assembly.assembled_database import AssembledDatabase, SourceDatabase
from rescale.rocksdb.consistency import checked_manifest
from rescale.rocksdb.stored_files import newest_options
from support.databases import databases, read_file, read_rows
from support.flinks_rocksdb import FlinksRocksdb
from support.rocksdb_writer import listed

Model = dict[str, dict[bytes, bytes]]
"""Value by state and key."""

STATES = ("first", "second")

SMALL = (
    "disable_auto_compactions=0;write_buffer_size=65536;max_bytes_for_level_base=4000;target_file_size_base=2000;"
    "max_bytes_for_level_multiplier=2;level0_file_num_compaction_trigger=3;"
)
"""Options that spread a few rows over many files in several levels."""


@dataclass(frozen=True)
class Part:
    """A subtask's database in the directory `path`, and its expected rows (`model`)."""

    path: Path
    key_groups: KeyGroupRange
    states: tuple[str, ...]
    model: Model

    def source(self) -> SourceDatabase:
        files = listed(self.path)
        options = newest_options(files)
        manifest = checked_manifest(files, read_file, self.states)
        return SourceDatabase(str(self.path), manifest, self.key_groups, options.name if options else None)


def lay_out(assembled: AssembledDatabase, sources: Sequence[Path], path: Path) -> None:
    """Copy all files of a database into the directory `path`."""
    path.mkdir()
    for reused in assembled.reused_files:
        shutil.copyfile(sources[reused.source_number] / reused.source_name, path / reused.name)
    for new_file in assembled.new_files:
        (path / new_file.name).write_bytes(new_file.data)


def within(models: Sequence[Model], key_groups: KeyGroupRange, max_parallelism: int) -> Model:
    """Return the rows of these key groups in any of the models."""
    prefix = prefix_size(max_parallelism)
    kept: Model = {}
    for model in models:
        for state, rows in model.items():
            kept.setdefault(state, {}).update(
                (key, value) for key, value in rows.items() if int.from_bytes(key[:prefix], "big") in key_groups
            )
    return kept


def random_steps(
    rng: random.Random, key_groups: KeyGroupRange, max_parallelism: int, number: int, states: Sequence[str] = STATES
) -> list[tuple[Any, ...]]:
    """Return random writes within some key groups, with flushes in between."""
    prefix = prefix_size(max_parallelism)
    steps: list[tuple[Any, ...]] = []
    for _ in range(number):
        state = rng.choice(states)
        group = rng.randint(key_groups.first, key_groups.last)
        key = group.to_bytes(prefix, "big") + bytes(rng.choices(b"abc", k=rng.randint(0, 4)))
        value = rng.randbytes(rng.randint(0, 60))
        roll = rng.random()
        if roll < 0.55:
            steps.append(("put", state, key, value))
        elif roll < 0.8:
            steps.append(("add", state, key, value[:8]))
        elif roll < 0.98:
            steps.append(("delete", state, key))
        elif roll < 0.985:
            ends = sorted((group, rng.randint(key_groups.first, key_groups.last)))
            steps.append(("delete_range", state, *(end.to_bytes(prefix, "big") for end in ends)))
        else:
            steps.append(("flush",))
    return steps


def apply(model: Model, steps: Sequence[tuple[Any, ...]]) -> None:
    """Apply the steps to a model as `Writer` applies them to its own model."""
    for verb, *arguments in steps:
        match verb, arguments:
            case "put", (state, key, value):
                model[state][key] = value
            case "add", (state, key, element):
                before = model[state].get(key)
                model[state][key] = element if before is None else before + b"," + element
            case "delete", (state, key):
                model[state].pop(key, None)
            case "delete_range", (state, begin, end):
                for key in [key for key in model[state] if begin <= key < end]:
                    del model[state][key]


def ranges(max_parallelism: int, parallelism: int) -> list[KeyGroupRange]:
    return [key_group_range(max_parallelism, parallelism, subtask) for subtask in range(parallelism)]


def random_parts(
    rng: random.Random, library: FlinksRocksdb, max_parallelism: int, parallelism: int, folder: Path
) -> list[Part]:
    """Write the databases of a job: large and small, with many levels and with one; some lack a state."""
    parts = []
    for subtask, key_groups in enumerate(ranges(max_parallelism, parallelism)):
        states = STATES if rng.random() < 0.8 else STATES[:1]
        steps = random_steps(rng, key_groups, max_parallelism, rng.choice([20, 300, 1500]), states)
        path = folder / f"part-{subtask}"
        options = SMALL if rng.random() < 0.6 else "disable_auto_compactions=1"
        with library.opened(folder / f"db-{subtask}", states, options) as database:
            database.write(steps)
            database.write([("checkpoint", path)])
        model: Model = {state: {} for state in states}
        apply(model, steps)
        parts.append(Part(path, key_groups, states, model))
    return parts


def check(library: FlinksRocksdb, part: Part) -> None:
    """Check that Flink's library finds exactly the rows of the model."""
    with library.opened(part.path, part.states) as database:
        assert {state: database.rows(state) for state in part.states} == part.model


def check_our_reading(part: Part, max_parallelism: int, scratch: Path) -> None:
    """Check that our reader finds only the rows of the model in all key groups: foreign rows are hidden or deleted."""
    everything = ranges(max_parallelism, 1)[0]
    rows_read = read_rows(listed(part.path), part.states, everything, max_parallelism, scratch)
    prefix = prefix_size(max_parallelism)
    assert rows_read == {
        (state, int.from_bytes(key[:prefix], "big"), key[prefix:]): value
        for state, rows in part.model.items()
        for key, value in rows.items()
    }


def check_further_writes(
    library: FlinksRocksdb, part: Part, max_parallelism: int, rng: random.Random, options: str = SMALL
) -> None:
    """Write more rows, then compact all states; check both times that the database holds the rows of the model."""
    more = random_steps(rng, part.key_groups, max_parallelism, 300, part.states)
    apply(part.model, more)
    with library.opened(part.path, part.states, options) as database:
        database.write(more)
        assert {state: database.rows(state) for state in part.states} == part.model
        database.write([("flush",), *(("compact", state) for state in part.states)])
        assert {state: database.rows(state) for state in part.states} == part.model
    check(library, part)


def expected_part(path: Path, chosen: Sequence[Part], key_groups: KeyGroupRange, max_parallelism: int) -> Part:
    """Return the expected database of these key groups, with their rows in the `chosen` databases."""
    states = tuple(dict.fromkeys(state for part in chosen for state in part.states))
    model = within([part.model for part in chosen], key_groups, max_parallelism)
    return Part(path, key_groups, states, {state: model[state] for state in states})


def overlapping(parts: Sequence[Part], key_groups: KeyGroupRange) -> list[Part]:
    return [part for part in parts if len(part.key_groups.intersection(key_groups))]


def flinks_parts(name: str, folder: Path) -> dict[tuple[int, tuple[str, ...]], list[Part]]:
    """Return the databases of a committed snapshot, by max parallelism and states, which identify the operator."""
    parts_by_states: dict[tuple[int, tuple[str, ...]], list[Part]] = {}
    for number, stored in enumerate(databases(name)):
        path = folder / f"part-{number}"
        path.mkdir()
        for file in stored.files:
            (path / file.name).write_bytes(read_file(file))
        model: Model = {state: {} for state in stored.states}
        rows = read_rows(stored.files, stored.states, stored.key_groups, stored.max_parallelism, folder)
        for (state, group, key), value in rows.items():
            model[state][group.to_bytes(prefix_size(stored.max_parallelism), "big") + key] = value
        states = tuple(stored.states)
        parts = parts_by_states.setdefault((stored.max_parallelism, states), [])
        parts.append(Part(path, stored.key_groups, states, model))
    return parts_by_states
