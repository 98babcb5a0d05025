"""Fixtures that several folders share."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from rescale.storage import store as stores
from rescale.storage.files import owned
from rescale.storage.s3.s3_store import S3Store
from support.examples import register_profiles
from support.go_programs import MODULES, SECONDS, is_there
from support.policed_wire import policed
from support.s3 import S3Server, s3_server, strict_s3_server
from support.untouched import Untouched, untouched

# Hundreds of processes import the same packages, Airflow's above all: what one of them has compiled the next ones find,
# also where the environment asks for nothing to be left.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

register_profiles()

# What is imported and collected stays to the end: the garbage collector looks for nothing in it.
gc.disable()

LONGEST_FIRST = ("whole_airflow", "oracle", "k8s", "execution", "demo", "airflow", "flink")
"""Folders whose tests take longest and begin first, so that no worker is left alone with them."""

TOGETHER = {f"tests/{folder}" for folder in ("whole_airflow", "whole_airflow/job", "k8s", "oracle", "airflow/flink")}
"""Folders whose tests share what is dear to start."""

APART = {"tests/oracle/test_cases.py"}
"""Takes so long that it may as well start all that again, where there are workers enough."""


class Folder(pytest.Package):
    """A folder of tests, which a fixture of `scope="package"` is there for: it ends with the last of them."""

    def setup(self) -> None:
        """There is no `__init__.py` to set up: it would make `tests/airflow` the `airflow` of imports."""


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> Folder:
    folder: Folder = Folder.from_parent(parent, path=path)
    return folder


class Together(LoadScopeScheduling):
    """Where several workers share the tests (`-n 2`), a file stays with one, and so does an Airflow, a Flink."""

    def _split_scope(self, nodeid: str) -> str:
        file = PurePath(nodeid.partition("::")[0])
        apart = self.numnodes > 2 and file.as_posix() in APART
        together = file.parent.as_posix() in TOGETHER and not apart
        return str(file.parent if together else file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    config.option.loadscopereorder = False  # the order is that of the next hook, not that of the number of tests
    return Together(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(Path(__file__).parent).as_posix()
        return next((n for n, long in enumerate(LONGEST_FIRST) if path.startswith(long)), len(LONGEST_FIRST))

    if share := os.environ.get("RESCALE_SLOW_SHARE"):
        _select_share(share, config, items)
    if hasattr(config, "workerinput"):
        items.sort(key=place)


def _select_share(share: str, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests outside of share K of N, for "K/N" with K from 0. Ids decide which share a test is in."""
    k, n = map(int, share.split("/"))
    others = [item for item in items if item.get_closest_marker("slow") and zlib.crc32(item.nodeid.encode()) % n != k]
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to build the programs that selected tests need, so that they are there when these tests begin.

    Tests that may have to wait for a build have the time for it.
    """
    gc.freeze()
    gc.enable()
    if session.config.option.collectonly or all(map(is_there, MODULES)):
        return
    waiting = [item for item in session.items if "charts" in item.path.parts or _uses_strict_server(item)]
    for item in waiting:
        item.add_marker(pytest.mark.timeout(SECONDS))
    if waiting and getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"] == "gw0":
        builder = subprocess.Popen(
            [sys.executable, "-m", "support.go_programs"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
        )
        session.config.add_cleanup(lambda: _end(builder))


def _uses_strict_server(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and any("strict" in fixture for fixture in item.fixturenames)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and the group, unless it has ended by itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C: what was begun is removed
        process.wait()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Write the ids of skipped tests, a line each, to the file that `RESCALE_SKIPPED` names."""
    if path := os.environ.get("RESCALE_SKIPPED"):
        skipped = terminalreporter.getreports("skipped")
        Path(path).write_text("".join(f"{report.nodeid}\n" for report in skipped))


@pytest.fixture(scope="session", autouse=True)
def s3() -> Iterator[S3Server]:
    """An S3 server; this process and those that it starts use it.

    It is there from the beginning: Spark's workers have the environment of the moment in which Spark was started.
    """
    with s3_server() as server:
        before = dict(os.environ)
        os.environ.update(server.environment)
        stores._s3.cache_clear()  # of another session in this process, and its server
        stores._s3()  # now: the first test to use it may have named another endpoint, for processes that it starts
        yield server
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def sources() -> Iterator[Untouched | None]:
    """The committed snapshots, where the system tells who touches files."""
    if sys.platform != "linux":
        yield None
        return
    with untouched(Path(__file__).parent / "fixtures") as watched:
        yield watched


@pytest.fixture(autouse=True)
def knows_no_directories() -> None:
    """Each test begins as a process does, which has written nowhere yet."""
    owned.forget()


@pytest.fixture(autouse=True)
def touches_nothing_but_targets(s3: S3Server, sources: Untouched | None) -> Iterator[None]:
    """Check that tests write nothing to S3 but where a plan, or the test itself, says (`support.bucket_policy`).

    And no process opens a file of a committed snapshot for writing, or does more to it.
    """
    yield
    refused, touched = s3.take_refused(), sources.take_touched() if sources else []
    assert not refused, f"more is asked for than a target: {refused}"
    assert not touched, f"a source is touched: {touched}"


@pytest.fixture(scope="session")
def strict_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Another one, of another make, which nothing uses by itself (`uses_strict_s3`)."""
    refusals = tmp_path_factory.mktemp("strict-policy") / "refused"
    with strict_s3_server(tmp_path_factory.mktemp("strict-s3")) as server, policed(server, refusals) as kept:
        yield kept


@pytest.fixture
def uses_strict_s3(strict_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """This process uses it as long as the test runs."""
    for name, value in strict_s3.environment.items():
        monkeypatch.setenv(name, value)
    store = S3Store()
    monkeypatch.setattr(stores, "_s3", lambda: store)
    yield strict_s3
    refused = strict_s3.take_refused()
    assert not refused, f"more is asked for than a target: {refused}"
