"""Estimates of when Flink made its cached answer, by the checkpoints in its answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescale.airflow.flink import answer_watch
from rescale.airflow.flink.answer_watch import AnswerWatch, CachedAnswer
from rescale.flink_rest.responses import CheckpointConfig, CompletedCheckpoint, LatestCheckpoints
from rescale.text.errors import StoreError

LIFETIME = 3.0
MOMENTS = st.floats(0.01, 20)


@dataclass
class Cache:
    """Flink's cache for a job that completes its checkpoints at these times."""

    completed: list[float]
    answered_at: float = -LIFETIME

    def answer(self, now: float) -> int:
        """Return the number of the last checkpoint, from a new answer if the cached one has expired."""
        if now >= self.answered_at + LIFETIME:
            self.answered_at = now
        return sum(each <= self.answered_at for each in self.completed)


@given(st.lists(MOMENTS, max_size=6), st.lists(MOMENTS, max_size=20), st.floats(0, 1), st.floats(0, 4), st.floats(0, 5))
def test_answers_after_the_first_fresh_request_are_newer_than_the_end_of_the_job(
    completed: list[float], requests_of_others: list[float], phase: float, cancel: float, later: float
) -> None:
    """Requests of other clients also make Flink renew its cached answer."""
    cache, cached = Cache(completed), CachedAnswer(LIFETIME)
    requests = [phase + tenth / 10 for tenth in range(150)]
    for now in sorted([*requests, *requests_of_others]):
        number = cache.answer(now)
        if now in requests:
            assert cached.note_answer(now, now, number)
    ended = requests[-1] + cancel
    fresh = cached.first_fresh_request_time(ended)
    cache.answer(fresh - answer_watch._MOST_DELAY_SECONDS + 1e-6 + later)
    assert cache.answered_at >= ended
    assert fresh <= ended + LIFETIME + answer_watch._MOST_DELAY_SECONDS


def test_answer_after_a_cancel_in_time_comes_right_after_the_cached_one_has_expired() -> None:
    cached = CachedAnswer(LIFETIME)
    for request, number in ((10.0, 7), (10.1, 7), (10.2, 8), (10.3, 8)):
        assert cached.note_answer(request, request + 0.01, number)
    assert cached.first_fresh_request_time(13.0) == pytest.approx(10.21 + LIFETIME + 0.2)
    assert cached.first_fresh_request_time(13.2) == pytest.approx(13.2 + LIFETIME + 0.2), (
        "another request may have renewed the answer before the end"
    )


def test_time_of_later_answers_follows_from_that_of_the_first() -> None:
    cached = CachedAnswer(LIFETIME)
    for request, number in ((10.0, 7), (10.1, 8), (13.1, 8), (13.2, 8)):
        assert cached.note_answer(request, request + 0.01, number)
    assert (cached.made_after, cached.made_before) == (pytest.approx(13.0), pytest.approx(13.21))


def test_older_answer_shows_that_there_are_several_caches() -> None:
    cached = CachedAnswer(LIFETIME)
    assert cached.note_answer(10.0, 10.0, 7)
    assert cached.note_answer(10.1, 10.1, 8)
    assert not cached.note_answer(10.2, 10.2, 7)
    assert cached.first_fresh_request_time(10.5) == pytest.approx(10.5 + LIFETIME + 0.2)


class Flink:
    """A Flink whose job has completed the checkpoint `number`; answers are not cached."""

    number = 7
    state_size = 0
    interval = 10_000
    error: StoreError | None = None

    def answer_cache_seconds(self) -> float:
        return LIFETIME

    def checkpoint_config(self, _: str) -> CheckpointConfig:
        return CheckpointConfig(interval=self.interval)

    def latest_checkpoints(self, _: str) -> LatestCheckpoints:
        if self.error is not None:
            raise self.error
        return LatestCheckpoints(completed=CompletedCheckpoint(id=self.number, state_size=self.state_size))


@pytest.mark.parametrize(("state_bytes", "seconds"), [(8_000_000_000, 2.2), (10**12, LIFETIME - 0.5)])
def test_cancel_waits_until_the_answer_expires_as_soon_as_the_state_needs(state_bytes: int, seconds: float) -> None:
    flink: Any = Flink()
    flink.state_size = state_bytes
    with AnswerWatch(flink, "job") as answers:
        while answers._cached_answer._checkpoint_number is None:
            time.sleep(0.01)
        flink.number = 8
        answers.wait_until_answer_expires_soon()
        waited = time.monotonic()
    made_after = answers._cached_answer.made_after
    assert made_after is not None
    assert waited >= made_after + LIFETIME - seconds


def test_cancel_does_not_wait_if_the_job_makes_checkpoints_often() -> None:
    flink: Any = Flink()
    flink.interval = 1000
    with AnswerWatch(flink, "job") as answers:
        started_at = time.monotonic()
        answers.wait_until_answer_expires_soon()
    assert time.monotonic() < started_at + LIFETIME - answer_watch._LEAST_CANCEL_SECONDS


def test_cancel_does_not_wait_if_flink_does_not_answer() -> None:
    flink: Any = Flink()
    flink.error = StoreError("Flink does not answer")
    with AnswerWatch(flink, "job") as answers:
        answers.wait_until_answer_expires_soon()
    assert answers.first_fresh_request_time(5.0) == pytest.approx(5.0 + LIFETIME + 0.2)
