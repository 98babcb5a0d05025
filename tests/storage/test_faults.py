"""The twin of the store fails where it was told to, over all processes of a run, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rescale.errors import StoreError
from rescale.storage.local import LocalStore
from support.faults import Fault, Faults, FaultyStore, Moment

_WRITES = """
import sys
from rescale.storage.store import open_store
store = open_store(sys.argv[1])
for i in range(int(sys.argv[2])):
    store.put(f"{sys.argv[1]}/{i}", b"%d" % i)
"""

_A_SMALL_RUN = """
import sys
from rescale.storage.store import open_store
target = sys.argv[1]
store = open_store(target)
assert store.put_if_absent(f"{target}.beside/claim", b"plan")
token = store.begin_parts(f"{target}/state", f"{target}.beside/staging")
receipts = [store.put_part(f"{target}/state", token, i + 1, 4 * i, b"%04d" % i) for i in range(3)]
store.complete_parts(f"{target}/state", token, receipts, 12)
assert store.put_if_absent(f"{target}/_metadata", store.read_all(f"{target}/state", 12)[0])
"""

_IN_ANOTHER_SESSION = """
import subprocess, sys
subprocess.run([sys.executable, "-c", sys.argv[1], *sys.argv[2:]], start_new_session=True)
raise SystemExit("the run went on")
"""


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    return Faults(tmp_path / "faults")


def _python(faults: Faults, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", *arguments], env={**os.environ, **faults.environment}, timeout=60)


@pytest.mark.parametrize(("moment", "there"), [(Moment.BEFORE, False), (Moment.AFTER, True)])
def test_an_error_before_or_after_the_call(faults: Faults, tmp_path: Path, moment: Moment, there: bool) -> None:
    store = FaultyStore(LocalStore(), faults)
    faults.plant(Fault(2, moment, StoreError("planted", path="here")))
    uris = [str(tmp_path / "home" / letter) for letter in "abc"]
    store.put(uris[0], b"")
    with pytest.raises(StoreError, match="planted") as raised:
        store.put_if_absent(uris[1], b"x")
    assert raised.value.path == "here"
    assert Path(uris[1]).exists() is there
    assert store.put_if_absent(uris[1], b"x"), "tried again it is there, whatever became of the first try"
    store.delete(uri for uri in uris)
    assert faults.calls == [
        f"put {uris[0]}",
        f"put_if_absent {uris[1]}",
        f"put_if_absent {uris[1]}",
        f"delete {' '.join(uris)}",
    ]


def test_calls_are_counted_over_all_processes(faults: Faults, tmp_path: Path) -> None:
    faults.plant(Fault(17, Moment.BEFORE, StoreError("planted")))
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda i: _python(faults, _WRITES, str(tmp_path / str(i)), "10"), range(4)))
    assert sorted(process.returncode for process in ended) == [0, 0, 0, 1], "one of them met the error"
    failed = next(i for i, process in enumerate(ended) if process.returncode)
    made = len(list((tmp_path / str(failed)).glob("*")))
    assert len(faults.calls) == 30 + made + 1


def test_a_killed_run_leaves_no_process_behind(faults: Faults, tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)
    try:
        faults.plant(Fault(3, Moment.AFTER))
        ended = _python(faults, _IN_ANOTHER_SESSION, _WRITES, str(tmp_path / "home"), "1000")
        assert ended.returncode == -signal.SIGKILL
        assert len(faults.calls) == 3
        assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["0", "1", "2"]
        _wait_until_none_is_left(faults)
        assert len(faults.calls) == 3
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.parametrize("moment", Moment)
def test_killed_at_every_call_and_tried_again(tmp_path: Path, moment: Moment) -> None:
    whole = Faults(tmp_path / "whole")
    assert _python(whole, _A_SMALL_RUN, str(tmp_path / "target")).returncode == 0
    assert len(whole.calls) == 8
    for call in range(1, len(whole.calls) + 1):
        faults, target = Faults(tmp_path / f"faults-{call}"), tmp_path / f"target-{call}"
        faults.plant(Fault(call, moment))
        assert _python(faults, _A_SMALL_RUN, str(target)).returncode == -signal.SIGKILL
        assert len(faults.calls) == call
        published = moment is Moment.AFTER and call == len(whole.calls)
        assert (target / "_metadata").exists() is published
        assert _python(faults, _A_SMALL_RUN, str(target)).returncode == 0
        assert {path.name: path.read_bytes() for path in target.iterdir()} == {
            "state": b"000000010002",
            "_metadata": b"000000010002",
        }
        assert [path.name for path in Path(f"{target}.beside").iterdir()] == ["claim"]


def _wait_until_none_is_left(faults: Faults) -> None:
    entry = next(f"{name}={value}".encode() for name, value in faults.environment.items() if "FAULTS" in name)
    deadline = time.monotonic() + 30
    while any(entry in _environment(process) for process in Path("/proc").iterdir() if process.name.isdigit()):
        assert time.monotonic() < deadline, "a process of the run is still there"
        time.sleep(0.05)


def _environment(process: Path) -> list[bytes]:
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return []
