"""Histories by seed: some always, hundreds more where all that is slow runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rescale.plan.plan import Plan
from rescale.runstate.publication import is_published
from simulation.history import Verdict, play
from simulation.installed import installed
from simulation.playing import play_all, side_by_side
from simulation.scene import PREPARERS
from simulation.script import AHEAD, has_native_state
from simulation.store_kinds import draw_store
from support.slow import slow


@pytest.fixture(scope="module", autouse=True)
def _installed() -> Iterator[None]:
    with installed():
        yield


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "seeds", [range(30), *(slow(range(at, at + 1000), id=f"from {at}") for at in (30, 1030, 2030))]
)
def test_whatever_happens_nothing_is_lost(seeds: range) -> None:
    ways: Counter[str] = Counter()
    for seed in seeds:
        verdict = play(seed)
        assert verdict.broken is None, described(verdict)
        ways[verdict.how] += 1
    published = sum(count for how, count in ways.items() if how.startswith("published"))
    assert published > 0.8 * len(seeds), ways


@pytest.mark.parametrize("seeds", [range(AHEAD, AHEAD + 400), slow(range(AHEAD + 400, AHEAD + 8000))])
def test_files_that_are_copied_ahead_make_no_difference(seeds: range) -> None:
    copied = 0
    for seed in filter(has_native_state, seeds):
        verdict = play(seed)
        assert verdict.broken is None, described(verdict)
        copied += any(verdict.injected[who] for who in PREPARERS)
    assert copied > len(seeds) // 100


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(225, id="files that RocksDB named were another's to the next run"),
        pytest.param(297, id="a claim that was misread twice was none of ours"),
        pytest.param(40391, id="a claim that was misread twice, in two ways, was gone"),
        pytest.param(520, id="a claim that was misread twice was another plan's"),
        pytest.param(1035512, id="a claim that was misread six times was another plan's"),
        pytest.param(1000669, id="a file that a listing missed was gone from a published result"),
        pytest.param(1018636, id="what was misread once of a dropped operator could not be read"),
        pytest.param(1022946, id="who stood still published what a job owned by then"),
        pytest.param(1074133, id="a result was published that had just been discarded, from begin to end"),
        pytest.param(4682, id="what a job owned by then was put again by the slower of two publishers"),
        pytest.param(7747, id="who validated late left a certificate of another reading"),
        pytest.param(1038996, id="files that came behind the claim stayed for ever"),
        pytest.param(1315643, id="the header of a directory rotted, and nobody compared it"),
        pytest.param(1388809, id="a claim was misread at each look, otherwise behind the digits that are told"),
        pytest.param(1311924, id="a result that was misread otherwise at each look was taken for another's"),
        pytest.param(1291798, id="what Java takes for true rotted, and is true"),
        pytest.param(1276005, id="who was taken for dead had misread, and wrote that over what was published"),
        pytest.param(1421506, id="the same, by one that had begun long before"),
        pytest.param(2156901, id="the same, by a rival that went on behind a discard"),
        pytest.param(1498066, id="a certificate of a discarded run came behind that of the next one"),
        pytest.param(1264279, id="what came behind a discard was in the way of another plan"),
        pytest.param(1760959, id="the same byte of a plan was misread at both looks, in two ways"),
        pytest.param(1945741, id="who stood still claimed what was being discarded, and its plan was gone"),
        pytest.param(1833114, id="elements lay in another order than their offsets say, for one had rotted"),
        pytest.param(2601422, id="a number of entries rotted, and the model counted to two thousand millions"),
        pytest.param(1648640, id="two elements began at one place, for an offset had rotted"),
        pytest.param(1650077, id="a shape rotted that nothing but itself shows, behind the plan"),
        pytest.param(1224364, id="the same bit of a claim was flipped at both looks"),
        pytest.param(1216219, id="a file of a discarded run came beside the result of the next one"),
        pytest.param(1213917, id="a table became unreadable, and a result that is proven by files refers to it"),
        pytest.param(1522760, id="the same, beside a directory that was rewritten"),
        pytest.param(1525351, id="the same, with what hides rows of others in the result"),
        pytest.param(1202622, id="nothing could be deleted, and a listing missed all that there was"),
        pytest.param(1152802, id="an SST file that somebody had spoilt was referred to, and a proof by files wanted"),
        pytest.param(1135793, id="a bit was flipped when it was moved, and back when it was validated"),
        pytest.param(1119737, id="a bit rotted, so that a key stood twice in source and result"),
    ],
)
def test_a_promise_that_was_broken_once_is_kept(seed: int) -> None:
    verdict = play(seed)
    assert verdict.broken is None, described(verdict)


def test_a_seed_is_one_history() -> None:
    for seed in (3, 16, 30, 300):
        assert play(seed) == play(seed)


@pytest.mark.slow
def test_a_bucket_that_keeps_versions_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, a discard and the run after it do there what they do anywhere."""
    some = [seed for seed in range(120) if draw_store(seed).keeps_versions]
    with_versions = [play(seed) for seed in some]
    monkeypatch.setattr("simulation.script.draw_store", lambda seed: replace(draw_store(seed), keeps_versions=False))
    without = [play(seed) for seed in some]
    assert len(some) > 3
    assert [(version.how, version.log[1:]) for version in with_versions] == [
        (verdict.how, verdict.log[1:]) for verdict in without
    ]


def test_workers_play_the_same_histories() -> None:
    some = [range(3), range(3, 6)]
    assert list(side_by_side(play_all, some, 2)) == list(side_by_side(play_all, some, 1))


@pytest.mark.parametrize("requests", [False, True])
def test_a_history_that_never_ends_is_noticed(monkeypatch: pytest.MonkeyPatch, requests: bool) -> None:
    def without_end(plan: Plan) -> None:
        while True:
            if requests:
                is_published(plan)

    assert play(3).broken is None  # the first one may wait longer for what is compiled
    monkeypatch.setattr("simulation.run.publish", without_end)
    monkeypatch.setattr("simulation.endless.SECONDS", 3.0)
    verdict = play(3)
    assert verdict.broken is not None
    assert verdict.broken.startswith("it goes on for more than 3 s: ")
    assert "without_end in " in verdict.broken


def described(verdict: Verdict) -> str:
    again = f"again: PYTHONPATH=tests python -m simulation --seeds 1 --first {verdict.seed}"
    return "\n    ".join([f"seed {verdict.seed}: {verdict.broken}", *verdict.log, again])
