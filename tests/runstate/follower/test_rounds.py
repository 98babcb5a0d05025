"""Rounds beside a target: which of their files are removed."""

from __future__ import annotations

from pathlib import Path

from rescale.runstate.follower.rounds import remove_rounds
from rescale.runstate.places import rounds_place
from rescale.storage.locations import join
from rescale.storage.store import open_store


def test_file_of_a_removed_round_stays_if_a_kept_round_refers_to_it(tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    place = rounds_place(target)
    store = open_store(place)
    kept = {join(place, file) for file in ("3/_metadata", "3/a.sst", "4/b.sst", "4.json", "5/_metadata", "5/c.sst")}
    removed = {join(place, file) for file in ("4/_metadata", "4/other.sst", "4.rescale/claim", "6/d.sst")}
    for uri in kept | removed:
        store.put(uri, b"")
    remove_rounds(target, kept_checkpoints=(3, 5), files={join(place, "4/b.sst")})
    assert {entry.uri for entry in store.list(place)} == kept
