"""Runs in a process with a shifted clock (`clocks`): the same bytes, verdicts and refusals as with the right one."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rescale.storage.store import open_store
from support import warm
from support.clocks import Clock, ClockShift
from support.faults import Faults, Kind
from support.resuming import KILLED, Case, assert_right, is_published

_NEGATIVE = re.compile(r"\s-\d[\d.]* (s|second|minute|hour)")


def check_shifted_runs(case: Case, clock: Clock, *, hour_shifts: Sequence[int] = (-1, 1)) -> None:
    """Run a case with a clock that shifts during the run, and with one that shifts after the run was killed."""
    clock.put(0)
    target = case.target()
    calls = _check_and_count_calls(case, target, case.faults())
    expected = _bytes_by_uri(target)
    for hours in hour_shifts:
        for call_index in (calls // 3, calls - 2):
            _delete_result(target, clock)
            _check_and_count_calls(
                case, target, ClockShift(str(case.work / uuid.uuid4().hex), at=call_index, hours=hours)
            )
            assert _bytes_by_uri(target) == expected
            assert not Path(target).exists() or _hours_between_files(target) == 1, "the clock was shifted"
        _delete_result(target, clock)
        assert case.run(target, case.faults(Kind.KILL, where="candidate")) == KILLED
        clock.put(hours)
        _check_and_count_calls(case, target, case.faults())
        assert _bytes_by_uri(target) == expected
        clock.put(-2 * hours)
        second_run = case.succeed(target)
        assert "was published before" in warm.output(second_run)
        discarded_target, discard_faults = case.target(), case.faults()
        assert case.run(discarded_target, case.faults(Kind.KILL, where="candidate")) == KILLED
        clock.put(hours)
        assert case.discard(discarded_target, discard_faults) == 0, warm.output(discard_faults)
        assert not open_store(discarded_target).list(discarded_target)
        assert not is_published(discarded_target)


def check_refused_requests(case: Case, clock: Clock) -> None:
    """Let a store refuse requests because of their time, from some call on; the run resumes once the clock is right."""
    clock.put(0)
    calls = _check_and_count_calls(case, case.target(), case.faults())
    for call_index in (1, calls // 2):
        target = case.target()
        clock_shift = ClockShift(str(case.work / uuid.uuid4().hex), at=call_index, hours=-1)
        assert case.run(target, clock_shift) == 2, warm.output(clock_shift)
        clock.put(0)
        output = warm.output(clock_shift)
        assert "found: RequestTimeTooSkewed" in output
        assert "set the clock, then run the same command again" in output
        assert "Traceback" not in output
        assert not is_published(target)
        _check_and_count_calls(case, target, case.faults())


def _check_and_count_calls(case: Case, target: str, faults: Faults) -> int:
    """Check that a run publishes a right result; return the number of its calls to stores."""
    assert case.run(target, faults) == 0, warm.output(faults)
    assert not _NEGATIVE.search(warm.output(faults))
    assert_right(target, case.source)
    return len(faults.calls())


def _bytes_by_uri(target: str) -> dict[str, bytes]:
    store = open_store(target)
    return {entry.uri: store.read_all(entry.uri, 1 << 30)[0] for entry in store.list(target)}


def _hours_between_files(target: str) -> int:
    paths = [path for directory in (target, f"{target}.rescale") for path in Path(directory).rglob("*")]
    times = [path.stat().st_mtime for path in paths if path.is_file()]
    return round((max(times) - min(times)) / 3600)


def _delete_result(target: str, clock: Clock) -> None:
    clock.put(0)
    store = open_store(target)
    store.delete([entry.uri for directory in (target, f"{target}.rescale") for entry in store.list(directory)])


if __name__ == "__main__":
    check_name, storage_uri, folder, source = sys.argv[1:]
    checks = {
        "play": check_shifted_runs,
        "play shortly": partial(check_shifted_runs, hour_shifts=(-1,)),
        "be refused": check_refused_requests,
    }
    checks[check_name](Case(storage_uri, Path(folder), 8 << 20, source=source), Clock.of_this_process())
