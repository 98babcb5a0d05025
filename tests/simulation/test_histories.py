"""Histories by seed: some in each test run, thousands more among the slow tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rescale.plan.plan import Plan
from rescale.runstate.publication import is_published
from simulation.history import Verdict, play
from simulation.installed import installed
from simulation.playing import play_all, side_by_side
from simulation.rounds import FIRST_ROUND_SEED
from simulation.scene import PREPARERS
from simulation.script import FIRST_AHEAD_SEED, has_native_state
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
def test_histories_keep_all_promises(seeds: range) -> None:
    outcomes: Counter[str] = Counter()
    for seed in seeds:
        verdict = play(seed)
        assert verdict.broken_promise is None, report(verdict)
        outcomes[verdict.outcome] += 1
    published_count = sum(count for outcome, count in outcomes.items() if outcome.startswith("published"))
    assert published_count > 0.8 * len(seeds), outcomes


@pytest.mark.parametrize(
    "seeds",
    [range(FIRST_AHEAD_SEED, FIRST_AHEAD_SEED + 400), slow(range(FIRST_AHEAD_SEED + 400, FIRST_AHEAD_SEED + 8000))],
)
def test_histories_with_files_copied_ahead_keep_all_promises(seeds: range) -> None:
    copied_count = 0
    for seed in filter(has_native_state, seeds):
        verdict = play(seed)
        assert verdict.broken_promise is None, report(verdict)
        copied_count += any(verdict.event_counts[who] for who in PREPARERS)
    assert copied_count >= len(seeds) // 200


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "seeds",
    [
        range(FIRST_ROUND_SEED, FIRST_ROUND_SEED + 30),
        *(
            slow(range(FIRST_ROUND_SEED + at, FIRST_ROUND_SEED + at + 500), id=f"from {at}")
            for at in (30, 530, 1030, 1530)
        ),
    ],
)
def test_rounds_of_a_live_rescale_keep_all_promises(seeds: range) -> None:
    for seed in seeds:
        verdict = play(seed)
        assert verdict.broken_promise is None, report(verdict)
        assert verdict.outcome.startswith(("published", "refused: another plan published")), report(verdict)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(225, id="files named by RocksDB seem foreign to the next run"),
        pytest.param(297, id="claim misread twice seems foreign"),
        pytest.param(40391, id="claim misread in two ways seems gone"),
        pytest.param(520, id="claim misread twice seems another plan's"),
        pytest.param(1035512, id="claim misread six times seems another plan's"),
        pytest.param(1000669, id="listing misses a file of a published result"),
        pytest.param(1018636, id="dropped operator is misread once"),
        pytest.param(1022946, id="paused process publishes a result that a job owns"),
        pytest.param(1074133, id="result is published after a complete discard"),
        pytest.param(4682, id="slower publisher puts files that a job owns again"),
        pytest.param(7747, id="late validation leaves a certificate of another read"),
        pytest.param(1038996, id="files put after the claim stay for ever"),
        pytest.param(1315643, id="header of a directory rots"),
        pytest.param(1388809, id="claim is misread each time, differently behind the reported digits"),
        pytest.param(1311924, id="result misread differently each time seems foreign"),
        pytest.param(1291798, id="rotted boolean is still true to Java"),
        pytest.param(1276005, id="lost process overwrites a published result with a misread"),
        pytest.param(1421506, id="process begun long before overwrites a published result with a misread"),
        pytest.param(2156901, id="rival overwrites a published result with a misread after a discard"),
        pytest.param(1498066, id="certificate of a discarded run arrives after that of the next run"),
        pytest.param(1264279, id="file put after a discard blocks another plan"),
        pytest.param(1760959, id="byte of a plan is misread in two ways"),
        pytest.param(1945741, id="paused process claims a target under discard without its plan"),
        pytest.param(1833114, id="rotted offset contradicts the order of elements"),
        pytest.param(2601422, id="number of entries rots to two thousand millions"),
        pytest.param(1648640, id="rotted offset makes two elements begin at one place"),
        pytest.param(1650077, id="shape without other evidence rots after the plan"),
        pytest.param(1224364, id="same bit of a claim is flipped in both reads"),
        pytest.param(1216219, id="file of a discarded run arrives beside the result of the next run"),
        pytest.param(1213917, id="result proven by files refers to an unreadable table"),
        pytest.param(1522760, id="result proven by files refers to an unreadable table beside a rewritten directory"),
        pytest.param(1525351, id="result proven by files hides foreign rows and refers to an unreadable table"),
        pytest.param(1202622, id="deletes are refused and a listing misses everything"),
        pytest.param(1152802, id="result proven by files refers to a changed SST file"),
        pytest.param(1135793, id="bit is flipped in the move and back in validation"),
        pytest.param(1119737, id="rotted bit makes a key occur twice in source and result"),
        pytest.param(3000532, id="write that fails leaves a fetched database behind"),
        pytest.param(4000084, id="task of an earlier try puts handles with files in another order during validation"),
    ],
)
def test_history_that_once_broke_a_promise_keeps_it(seed: int) -> None:
    verdict = play(seed)
    assert verdict.broken_promise is None, report(verdict)


def test_seed_gives_the_same_history_each_time() -> None:
    for seed in (3, 16, 30, 300, FIRST_ROUND_SEED + 5):
        assert play(seed) == play(seed)


@pytest.mark.slow
def test_histories_are_the_same_in_a_bucket_that_keeps_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, a discard and the next run behave as in a bucket without versions."""
    seeds = [seed for seed in range(120) if draw_store(seed).keeps_versions]
    with_versions = [play(seed) for seed in seeds]
    monkeypatch.setattr("simulation.script.draw_store", lambda seed: replace(draw_store(seed), keeps_versions=False))
    without_versions = [play(seed) for seed in seeds]
    assert len(seeds) > 3
    assert list(map(_course, with_versions)) == list(map(_course, without_versions))


def _course(verdict: Verdict) -> tuple[str, list[str]]:
    """Return how a history went, without the store's description and the random names of probes."""
    return verdict.outcome, [re.sub(r"/probe-[0-9a-f]+", "/probe", line) for line in verdict.log[1:]]


def test_workers_play_the_same_histories() -> None:
    chunks = [range(3), range(3, 6)]
    assert list(side_by_side(play_all, chunks, 2)) == list(side_by_side(play_all, chunks, 1))


@pytest.mark.parametrize("makes_requests", [False, True])
def test_endless_history_is_noticed(monkeypatch: pytest.MonkeyPatch, makes_requests: bool) -> None:
    def without_end(plan: Plan) -> None:
        while True:
            if makes_requests:
                is_published(plan)

    assert play(3).broken_promise is None  # the first history includes compilation
    monkeypatch.setattr("simulation.run.publish", without_end)
    monkeypatch.setattr("simulation.endless.CPU_SECONDS_LIMIT", 3.0)
    verdict = play(3)
    assert verdict.broken_promise is not None
    assert verdict.broken_promise.startswith("it goes on for more than 3 s: ")
    assert "without_end in " in verdict.broken_promise


def report(verdict: Verdict) -> str:
    command = f"again: PYTHONPATH=tests python -m simulation --seeds 1 --first {verdict.seed}"
    return "\n    ".join([f"seed {verdict.seed}: {verdict.broken_promise}", *verdict.log, command])
