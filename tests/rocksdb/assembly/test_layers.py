"""Databases with several levels of changes above a base: what Flink's own RocksDB libraries read from them.

A lookup, an iterator, and both after a full compaction must agree, with each way of compaction that Flink offers.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from rescale.flink.key_groups import KeyGroupRange
from rescale.rocksdb.assembly.assembly import assemble
from support.assembled import (
    SMALL,
    STATES,
    Model,
    Part,
    check_further_writes,
    check_our_reading,
    expected_part,
    lay_out,
)
from support.flinks_rocksdb import FlinksRocksdb
from support.layers import write_layers

STYLES = {
    "static": SMALL,
    "dynamic": f"{SMALL}level_compaction_dynamic_level_bytes=1;",
    "universal": f"{SMALL}compaction_style=kCompactionStyleUniversal;",
}
LINES = ("1.20", "2")
HALVES = (KeyGroupRange(0, 63), KeyGroupRange(64, 127))


def layers_of(rng: random.Random, key_groups: KeyGroupRange) -> list[Model]:
    """Return the rows of a base and of two layers: rows are deleted, changed and added, and deleted ones come back."""

    def value() -> bytes:
        return rng.randbytes(rng.randint(0, 60))

    keys = [bytes([group, *name]) for group in range(key_groups.first, key_groups.last + 1) for name in (b"a", b"b")]
    models: list[Model] = [{state: {key: value() for key in keys if rng.random() < 0.8} for state in STATES}]
    for _ in range(2):
        model = {state: dict(rows) for state, rows in models[-1].items()}
        for rows in model.values():
            for key in keys:
                roll = rng.random()
                if roll < 0.3:
                    rows.pop(key, None)
                elif roll < 0.5:
                    rows[key] = value()
        models.append(model)
    return models


def check_each_way(library: FlinksRocksdb, part: Part, options: str) -> None:
    """Look rows up, iterate over them, and do both again after a full compaction, in a copy of the database."""
    copy = part.path.with_name(f"{part.path.name}-opened")
    shutil.copytree(part.path, copy)
    keys = [bytes([group, *name]) for group in range(128) for name in (b"a", b"b")]
    with library.opened(copy, part.states, options) as database:
        for steps in ([], [("compact", state) for state in part.states]):
            database.write(steps)
            for state in part.states:
                assert database.rows(state) == part.model[state]
                assert database.values(state, keys) == [part.model[state].get(key) for key in keys]
    shutil.rmtree(copy)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("line", LINES)
def test_database_with_layers_of_changes_is_opened_clipped_joined_and_compacted(
    libraries: dict[str, FlinksRocksdb], tmp_path: Path, line: str, style: str
) -> None:
    rng = random.Random(line + style)
    library, options = libraries[line], STYLES[style]
    parts = []
    for number, key_groups in enumerate(HALVES):
        models = layers_of(rng, key_groups)
        manifest = write_layers(tmp_path / f"part-{number}", models)
        assert {file.level for file in manifest.files.values()} == {6, 5, 4}
        parts.append(Part(tmp_path / f"part-{number}", key_groups, STATES, models[-1]))
        check_our_reading(parts[-1], 128, tmp_path)
        check_each_way(library, parts[-1], options)
    cut_part = expected_part(tmp_path / "cut", parts[:1], KeyGroupRange(0, 40), 128)
    shutil.copytree(parts[0].path, cut_part.path)
    with library.opened(cut_part.path, STATES, options) as database:  # as Flink does (`deleteRange`)
        database.write([("delete_range", state, bytes([41]), bytes([128])) for state in STATES])
    check_each_way(library, cut_part, options)
    for name, key_groups in (("joined", KeyGroupRange(0, 127)), ("joined-and-cut", KeyGroupRange(20, 100))):
        joined_part = expected_part(tmp_path / name, parts, key_groups, 128)
        lay_out(
            assemble([part.source() for part in parts], key_groups, 128),
            [part.path for part in parts],
            joined_part.path,
        )
        check_our_reading(joined_part, 128, tmp_path)
        check_each_way(library, joined_part, options)
    check_further_writes(library, joined_part, 128, rng, options)
