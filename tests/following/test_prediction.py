"""The predicted time of a last round."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rescale.following.prediction import with_duration
from rescale.runstate.follower.rounds import Round, RoundKind

ROUND = Round(
    number=2,
    checkpoint=25,
    kind=RoundKind.ROUND,
    root=20,
    reason=None,
    rows_deleted=10_000,
    rows_written=10_000,
    bytes_changed=10_000_000,
    bytes_read=10_000_000,
    change_rate=1_000_000.0,
    taken=1000.0,
    seconds=None,
    last_round_seconds=7.0,
)


def predicted_seconds(finished: Round, seconds: float, now: float) -> float | None:
    return with_duration(finished, seconds, now).last_round_seconds


def test_last_round_soon_after_a_round_has_less_to_move() -> None:
    assert predicted_seconds(ROUND, 1.2, 1002.0) == pytest.approx(1.2 * 62 / 70)


def test_prediction_after_a_large_round_is_proportional_to_its_changes() -> None:
    large = replace(ROUND, bytes_changed=100_000_000_000, change_rate=100_000_000.0)
    assert predicted_seconds(large, 600.0, 1600.0) == pytest.approx(600 * 0.6, rel=0.001)


def test_last_round_moves_at_most_as_much_as_the_round_before() -> None:
    assert predicted_seconds(ROUND, 1.2, 1060.0) == 1.2


@pytest.mark.parametrize("seconds_ahead", [1.0, 3600.0])
def test_time_is_predicted_with_a_store_whose_clock_is_ahead(seconds_ahead: float) -> None:
    assert predicted_seconds(ROUND, 1.2, 1000.0 - seconds_ahead) == pytest.approx(1.2 * 61.2 / 70)


def test_round_of_a_store_without_times_predicts_its_own_duration() -> None:
    assert predicted_seconds(replace(ROUND, taken=None, change_rate=None), 1.2, 1002.0) == 1.2


@pytest.mark.parametrize("kind", [RoundKind.BASE, RoundKind.JOINED])
def test_base_and_joined_round_keep_the_prediction_before_them(kind: RoundKind) -> None:
    assert with_duration(replace(ROUND, kind=kind), 30.0, 1040.0) == replace(ROUND, kind=kind, seconds=30.0)
