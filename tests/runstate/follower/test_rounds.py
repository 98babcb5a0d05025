"""Rounds beside a target: which of their files are removed."""

from __future__ import annotations

from pathlib import Path

from rescale.runstate.follower.rounds import finished_round_checkpoints, remove_rounds
from rescale.runstate.places import rounds_place
from rescale.storage.locations import join
from rescale.storage.s3.s3_requests import REQUESTS
from rescale.storage.store import open_store
from support.s3 import S3Server


def test_finished_rounds_are_those_with_metadata(tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    assert finished_round_checkpoints(target) == []
    store, place = open_store(target), rounds_place(target)
    for file in ("10/_metadata", "9/_metadata", "9/a.sst", "11/b.sst", "11.rescale/claim", "8.json", "old/_metadata"):
        store.put(join(place, file), b"")
    assert finished_round_checkpoints(target) == [9, 10]


def test_finished_rounds_are_found_with_two_requests_for_any_number_of_files(s3: S3Server) -> None:
    bucket = s3.new_bucket("rounds")
    s3.declare(f"s3://{bucket}")
    target = f"s3://{bucket}/target"
    store, place = open_store(target), rounds_place(target)
    for file in ("5/_metadata", *(f"5/{i}.sst" for i in range(1001))):
        store.put(join(place, file), b"")
    before = REQUESTS.by_operation
    assert finished_round_checkpoints(target) == [5]
    assert REQUESTS.by_operation - before == {"ListObjectsV2": 1, "HeadObject": 1}


def test_file_of_a_removed_round_stays_if_a_kept_round_refers_to_it(tmp_path: Path) -> None:
    target = str(tmp_path / "target")
    place = rounds_place(target)
    store = open_store(place)
    remaining_uris = {
        join(place, file) for file in ("3/_metadata", "3/a.sst", "4/b.sst", "4.json", "5/_metadata", "5/c.sst")
    }
    removed_uris = {join(place, file) for file in ("4/_metadata", "4/other.sst", "4.rescale/claim", "6/d.sst")}
    for uri in remaining_uris | removed_uris:
        store.put(uri, b"")
    remove_rounds(target, kept_checkpoints=(3, 5), kept_uris={join(place, "4/b.sst")})
    assert {entry.uri for entry in store.list(place)} == remaining_uris
