"""Find out when Flink's cached answer about a job's checkpoints expires, to cancel the job right before it does.

The new job may start only when Flink has given an answer that it made after the old job's end. Such an answer shows
whether somebody else has stopped the old job with a savepoint. Flink caches each answer for a fixed time
(`AbstractCheckpointStatsHandler`; before 1.20 `DefaultExecutionGraphCache`), and an answer does not say when it was
made. But if an answer names a newer checkpoint than the answer before it, Flink made the newer answer after the request
for the older one. So it is known when the newer answer expires.

If the job is cancelled right before the cached answer expires, Flink makes a new answer soon after the job's end. After
any other cancel, Flink may repeat the old answer, and the job stands still until that answer has expired: for up to 3
seconds by default.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import Self

from rescale.flink_rest.client import Flink
from rescale.flink_rest.responses import CompletedCheckpoint
from rescale.text.errors import RescaleError

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_MOST_DELAY_SECONDS = 0.2
"""Upper bound of the time that an answer of Flink takes to arrive."""

_LEAST_CANCEL_SECONDS, _CANCEL_SECONDS_PER_GB = 0.6, 0.2
"""Time from the cancel to the expiry of the cached answer, in seconds: a minimum, and an addition for each GB of state.

The end of a task with RocksDB takes longer the more local files it has to delete: 0.2 s with 1 GB, and 1.3 s with 8 GB.
If the cancel takes longer than this time, the job stands still until another answer has expired.
"""

_LEAST_WAIT_SECONDS = 0.5
"""Least number of seconds between a new answer of Flink and the cancel: recognising the answer as new takes time."""

_SHORT_LIFETIME_IN_CANCELS = 2
"""The cancel does not wait if the lifetime of an answer is at most this multiple of `_LEAST_CANCEL_SECONDS`."""

_SHORT_INTERVAL_IN_LIFETIMES = 2
"""The cancel does not wait if the interval between checkpoints is below this multiple of the lifetime of an answer.

The job would probably make another checkpoint during the wait.
"""


@dataclass
class CachedAnswer:
    """Cached answer of Flink, which was made between `made_after` and `made_before`.

    Both are times of `time.monotonic`, or None if unknown. Flink repeats an answer for `lifetime_seconds`.
    """

    lifetime_seconds: float
    made_after: float | None = None
    made_before: float | None = None
    _checkpoint_number: int | None = None
    _request_time: float = 0.0

    def note_answer(self, request_time: float, answer_time: float, checkpoint_number: int) -> bool:
        """Take note of an answer of Flink that names `checkpoint_number` as the last completed checkpoint (0: none).

        `request_time` is when the request was sent, and `answer_time` when the answer arrived. Returns False if the
        answer names an older checkpoint than the answer before it: then Flink has several caches, and the times are
        unknown.
        """
        if self._checkpoint_number is not None and checkpoint_number < self._checkpoint_number:
            self.forget()
            return False
        if self._checkpoint_number is not None and checkpoint_number > self._checkpoint_number:
            self.made_after, self.made_before = self._request_time, answer_time
        elif (
            self.made_after is not None
            and self.made_before is not None
            and request_time >= self.made_before + self.lifetime_seconds
        ):
            self.made_after, self.made_before = self.made_after + self.lifetime_seconds, answer_time
        self._checkpoint_number, self._request_time = checkpoint_number, request_time
        return True

    def forget(self) -> None:
        self.made_after = self.made_before = None

    def first_fresh_request_time(self, end_time: float) -> float:
        """Return the time from which Flink answers every request with an answer that it made after `end_time`.

        Both are times of `time.monotonic`. `end_time` must not be earlier than the arrival of the last answer.
        """
        if (
            self.made_after is not None
            and self.made_before is not None
            and end_time <= self.made_after + self.lifetime_seconds
        ):
            return self.made_before + self.lifetime_seconds + _MOST_DELAY_SECONDS
        return end_time + self.lifetime_seconds + _MOST_DELAY_SECONDS


def first_fresh_request_time(flink: Flink, end_time: float) -> float:
    """Return the time from which all of Flink's answers are newer than `end_time`, if no `AnswerWatch` has seen any."""
    return CachedAnswer(flink.answer_cache_seconds()).first_fresh_request_time(end_time)


class AnswerWatch:
    """Watch over Flink's cached answer about a job's checkpoints, to learn when Flink made it.

    A thread asks Flink ten times a second, from the start of the `with` block to its end.
    """

    def __init__(self, flink: Flink, job_id: str) -> None:
        self._flink, self._job_id = flink, job_id
        self._cached_answer = CachedAnswer(flink.answer_cache_seconds())
        config = flink.checkpoint_config(job_id)
        self._interval_seconds = 0.0 if config is None else (config.interval or 0) / 1000
        self._state_bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask_until_end, name="answers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the requests, and wait for the end of their thread."""
        self._ended.set()
        self._thread.join()

    def wait_until_answer_expires_soon(self) -> None:
        """Wait until there is just enough time for a cancel of the job before the cached answer expires.

        Returns at once if the lifetime of an answer is hardly longer than a cancel, or if the job would probably make
        another checkpoint during the wait. Returns after two lifetimes of an answer if the expiry time stays unknown.
        """
        lifetime_seconds, now = self._cached_answer.lifetime_seconds, time.monotonic()
        is_useful = (
            lifetime_seconds > _SHORT_LIFETIME_IN_CANCELS * _LEAST_CANCEL_SECONDS
            and self._interval_seconds >= _SHORT_INTERVAL_IN_LIFETIMES * lifetime_seconds
        )
        deadline = now + 2 * lifetime_seconds if is_useful else now
        while now < deadline and self._thread.is_alive():
            made_after = self._cached_answer.made_after
            if (
                made_after is not None
                and (seconds_left := made_after + lifetime_seconds - self._cancel_seconds() - now) >= 0
            ):
                log.info("the cancel waits %.1f s, until Flink's cached answer is about to expire", seconds_left)
                time.sleep(seconds_left)
                return
            time.sleep(_POLL_SECONDS)
            now = time.monotonic()

    def first_fresh_request_time(self, end_time: float) -> float:
        """Return the time from which all of Flink's answers are newer than `end_time`; call it after `end`."""
        return self._cached_answer.first_fresh_request_time(end_time)

    def _cancel_seconds(self) -> float:
        """Return the seconds that a cancel of the job may take; fewer than the lifetime of an answer."""
        needed_seconds = _LEAST_CANCEL_SECONDS + _CANCEL_SECONDS_PER_GB * self._state_bytes / 1e9
        return min(needed_seconds, self._cached_answer.lifetime_seconds - _LEAST_WAIT_SECONDS)

    def _ask_until_end(self) -> None:
        while True:
            request_time = time.monotonic()
            try:
                latest_checkpoints = self._flink.latest_checkpoints(self._job_id)
            except RescaleError:
                self._cached_answer.forget()
                return
            completed_checkpoint = (
                CompletedCheckpoint()
                if latest_checkpoints is None or latest_checkpoints.completed is None
                else latest_checkpoints.completed
            )
            checkpoint_number, self._state_bytes = completed_checkpoint.id, completed_checkpoint.state_size
            if not self._cached_answer.note_answer(
                request_time, time.monotonic(), checkpoint_number
            ) or self._ended.wait(_POLL_SECONDS):
                return
