"""Tests of the harness: a rescale by Flink itself has no difference, and planted differences are found."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest

from oracle.distribution import LINES
from oracle.harness import Flink, FlinkError, Job, Verdict
from oracle.key_types import FOLDED_KEYS, HASHED_KEYS, UNKNOWN_KEYS, keyed
from rescale.flink.metadata.handles import DistributionMode
from rescale.flink.redistribution import StateLayout, redistribute
from support.needs import need
from support.slow import slow

EVERYTHING = Job("everything", 4, {"seed": 3}, exceptions={"lists": 3}, max_parallelism=128)
RAW = EVERYTHING.with_(parameters={"seed": 3, "raw_keyed": 1, "raw_operator": 1})


def compared_each_kind(verdict: Verdict) -> bool:
    """Return whether there is no difference and something of each kind was compared."""
    return verdict.ok and all(verdict.comparisons.values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "backend"), [("canonical", "hashmap"), ("native", "rocksdb"), ("checkpoint", "hashmap")]
)
def test_rescale_by_flink_itself_has_no_difference(flink: Flink, tmp_path: Path, backend: str, kind: str) -> None:
    job = RAW.with_(backend=backend)
    path = flink.snapshot(job, tmp_path, kind)
    for parallelism in (4, 3, 6):
        verdict = flink.restore(
            path, job, job.with_(parallelism=parallelism, exceptions={}), per_subtask=True, next_kind="canonical"
        )
        assert compared_each_kind(verdict), verdict


@pytest.mark.parametrize("keys", [0, slow(1)])
def test_rescale_by_flink_of_a_job_with_few_keys_has_no_difference(flink: Flink, tmp_path: Path, keys: int) -> None:
    job = EVERYTHING.with_(parameters={"seed": 3, "keys": keys}, max_parallelism=None)
    verdict = flink.restore(flink.snapshot(job, tmp_path), job, job.with_(parallelism=3))
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0


@pytest.mark.parametrize("scenario", ["clicks", *map(slow, ("windows", "sql", "splits", "async", "cep", "finished"))])
def test_rescale_by_flink_of_other_graphs_has_no_difference(flink: Flink, tmp_path: Path, scenario: str) -> None:
    job = Job(scenario, 4, {"seed": 5}, max_parallelism=128)
    verdict = flink.restore(flink.snapshot(job, tmp_path), job, job.with_(parallelism=3, backend="rocksdb"))
    assert verdict.ok, verdict
    assert verdict.comparisons["results"] > 0


@pytest.mark.slow
def test_rescale_by_flink_of_jobs_keyed_by_any_type_has_no_difference(flink: Flink, tmp_path: Path) -> None:
    job = keyed(2, 128, *HASHED_KEYS, *FOLDED_KEYS, *UNKNOWN_KEYS)
    verdict = flink.restore(flink.snapshot(job, tmp_path), job, job.with_(parallelism=1))
    assert verdict.ok, verdict
    assert verdict.comparisons["keyed"] > 50 * len(HASHED_KEYS)


@pytest.mark.parametrize(
    ("planted_parameters", "difference"),
    [
        ({"seed": 4}, "states/last: key user-1: expected"),
        ({"keys": 13}, "states/last: key üser-𝄞-12 is lost"),
        ({"keys": 11}, "states/last: surplus key user-11"),
        ({"raw_keyed": 0}, "raw/keyed: surplus key group"),
        ({"raw_operator": 0}, "raw/_default_: operator state that nobody expected"),
    ],
)
def test_planted_difference_is_found(
    flink_1_20: Flink, tmp_path: Path, planted_parameters: dict[str, int], difference: str
) -> None:
    path = flink_1_20.snapshot(RAW, tmp_path)
    other_job = RAW.with_(parameters={**RAW.parameters, **planted_parameters})
    verdict = flink_1_20.restore(path, other_job, RAW.with_(parallelism=2), shown_count=1000)
    assert not verdict.ok
    assert any(line.startswith(difference) for line in verdict.differences), verdict


def test_elements_in_the_wrong_subtask_are_found(flink_1_20: Flink, tmp_path: Path) -> None:
    path = flink_1_20.snapshot(RAW, tmp_path)
    verdict_of_right_source = flink_1_20.restore(
        path, RAW, RAW.with_(parallelism=5, exceptions={}), next_kind="canonical"
    )
    assert verdict_of_right_source.ok, verdict_of_right_source
    # With one more subtask in the source than there was, all elements are there, but not where they should be.
    verdict_of_wrong_source = flink_1_20.restore(
        path, RAW.with_(exceptions={"lists": 4}), RAW.with_(parallelism=5, exceptions={}), per_subtask=True
    )
    assert any("lists/numbers in subtask" in line for line in verdict_of_wrong_source.differences), (
        verdict_of_wrong_source
    )


def test_verdict_without_comparisons_is_not_ok() -> None:
    assert not Verdict((), 0, {}).ok
    assert not Verdict((), 0, {"keyed": 0}).ok


def test_refusal_of_flink_is_raised_with_its_message(flink: Flink, tmp_path: Path) -> None:
    job = Job("clicks", 2, max_parallelism=128)
    path = flink.snapshot(job, tmp_path)
    with pytest.raises(FlinkError, match="Max parallelism mismatch"):
        flink.restore(path, job, job.with_(max_parallelism=64))
    with pytest.raises(FlinkError, match="Max parallelism mismatch"):
        flink.restore(path, job, job.with_(max_exceptions={"clicks-per-user": 64}))
    (path / "_metadata").write_bytes(b"damaged!")
    with pytest.raises(FlinkError, match="magic number"):
        flink.restore(path, job, job)


def test_flink_is_usable_after_a_command_that_timed_out(flink_1_20: Flink, tmp_path: Path) -> None:
    job = Job("clicks", 2, max_parallelism=128)
    with pytest.raises(FlinkError, match="out of time"):
        flink_1_20.snapshot(job, tmp_path, timeout=0.001)
    assert flink_1_20.snapshot(job, tmp_path).is_dir()


@pytest.mark.slow
def test_jvm_is_killed_when_its_answer_is_not_awaited() -> None:
    need("javac", "real Flink is driven by Java that is compiled for it (a JDK 17)")
    with Flink(LINES["2"]) as flink:
        with patch("selectors.DefaultSelector.select", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
            flink.command("key_types")
        with pytest.raises(FlinkError, match="is gone"):
            flink.key_groups(defaults=[1])


def test_claimed_snapshot_is_deleted_by_flink(flink: Flink, tmp_path: Path) -> None:
    path = flink.snapshot(EVERYTHING, tmp_path)
    verdict = flink.restore(path, EVERYTHING, EVERYTHING.with_(parallelism=3), claim_mode="CLAIM")
    assert verdict.ok, verdict
    assert verdict.checkpoints_until_deleted is not None
    assert verdict.checkpoints_until_deleted > 0
    assert not path.exists()


def test_redistribution_by_flink_has_known_values(flink: Flink) -> None:
    old = [
        [
            {"name": "A", "mode": "SPLIT_DISTRIBUTE", "elements": 3},
            {"name": "B", "mode": "SPLIT_DISTRIBUTE", "elements": 2},
        ],
        [
            {"name": "A", "mode": "SPLIT_DISTRIBUTE", "elements": 4},
            {"name": "B", "mode": "SPLIT_DISTRIBUTE", "elements": 3},
        ],
    ]
    dealt = [
        sorted((piece["name"], piece["from"], tuple(piece["elements"])) for piece in pieces)
        for pieces in flink.redistribute(old, 3)
    ]
    assert dealt == [
        [("A", 0, (0, 1, 2)), ("B", 1, (2,))],
        [("A", 1, (0, 1)), ("B", 0, (0, 1))],
        [("A", 1, (2, 3)), ("B", 1, (0, 1))],
    ]


def test_redistribution_of_many_states_is_the_same_as_by_flink(flink: Flink) -> None:
    """Flink takes states in the order of its hash maps, one for each mode, and begins each with the next subtask."""
    split, broadcast = DistributionMode.SPLIT_DISTRIBUTE, DistributionMode.BROADCAST
    old = [
        [
            StateLayout(f"state-{i * 7919}", broadcast, 1)
            if i % 2
            else StateLayout(f"state-{i * 7919}", split, 1 + i % 3)
            for i in range(26)
        ]
        for _ in range(2)
    ]
    states_for_flink = [
        [{"name": state.name, "mode": state.mode.name, "elements": state.element_count} for state in part]
        for part in old
    ]
    flink_pieces = [
        {(piece["name"], piece["from"], element_index) for piece in pieces for element_index in piece["elements"]}
        for pieces in flink.redistribute(states_for_flink, 5)
    ]
    our_pieces = [
        {
            (share.name, run.source, element_index)
            for share in shares
            for run in share.runs
            for element_index in range(run.first, run.first + run.count)
        }
        for shares in redistribute(old, 5)
    ]
    assert our_pieces == flink_pieces


def test_key_groups_by_flink_have_known_values(flink: Flink) -> None:
    assert flink.key_groups(hashes=[(5, 128)], ranges=[(128, 3, 1)], owners=[(128, 3, 100)], defaults=[1, 86, 200]) == {
        "groups": [126],
        "ranges": [[43, 85]],
        "owners": [2],
        "defaults": [128, 256, 512],
    }
