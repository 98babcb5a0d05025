"""Fixtures that several folders share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from rescale.storage import store as stores
from rescale.storage.files import owned
from rescale.storage.s3.s3_store import S3Store
from support.disk_waits import no_waits
from support.examples import register_profiles
from support.form_surface import errors_can_be_shown_in_forms
from support.policed_wire import policed
from support.s3 import S3Server, s3_server, strict_s3_server
from support.untouched import Untouched, untouched

__all__ = ["errors_can_be_shown_in_forms"]

# A shell without job control starts background commands with SIGINT ignored. All programs that tests start would
# inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of processes import the same packages, Airflow's above all. So bytecode is always written: later processes
# reuse it.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

register_profiles()

# Off until all tests are collected: objects made until then stay, so the garbage collector need not search them.
gc.disable()

LONGEST_FIRST = ("whole_airflow", "oracle", "k8s", "execution", "demo", "airflow", "flink")
"""Folders whose tests take longest: they begin first, so that no worker is left with them at the end."""

TOGETHER = {f"tests/{folder}" for folder in ("whole_airflow", "whole_airflow/job", "k8s", "oracle", "airflow/flink")}
"""Folders whose tests share something that starts slowly, such as a Flink: each goes to a single worker."""

APART = {"tests/oracle/test_cases.py"}
"""Files that take long: if there are more than two workers, each gets its own worker, which starts its own Flink."""

AIRFLOW = "tests/whole_airflow"
ENOUGH_FOR_TWO = 30
"""Smallest number of Airflow tests for which it pays to start a second Airflow, for the tests with jobs of Flink."""


class Folder(pytest.Package):
    """A folder of tests: a fixture with `scope="package"` ends with the last test of its folder."""

    def setup(self) -> None:
        """Set up nothing: folders have no `__init__.py`, which would make `tests/airflow` the `airflow` of imports."""


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> Folder:
    folder: Folder = Folder.from_parent(parent, path=path)
    return folder


class Together(LoadScopeScheduling):
    """Scheduler for several workers (`-n 2`): all tests of a file, of an Airflow or of a Flink go to one worker."""

    @cached_property
    def _one_airflow(self) -> bool:
        return sum(nodeid.startswith(AIRFLOW) for nodeid in self.collection or ()) < ENOUGH_FOR_TWO

    def _split_scope(self, nodeid: str) -> str:
        file = PurePath(nodeid.partition("::")[0])
        if self._one_airflow and file.is_relative_to(AIRFLOW):
            return AIRFLOW
        apart = self.numnodes > 2 and file.as_posix() in APART
        together = file.parent.as_posix() in TOGETHER and not apart
        return str(file.parent if together else file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    config.option.loadscopereorder = False  # xdist would order by number of tests; the next hook sets the order
    return Together(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.relative_to(Path(__file__).parent).as_posix()
        return next((n for n, long in enumerate(LONGEST_FIRST) if path.startswith(long)), len(LONGEST_FIRST))

    if hasattr(config, "workerinput"):
        items.sort(key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch the jars of Flink that tests need, before the first test and outside of its time limit.

    From here on, the garbage collector only searches objects that are made by tests.
    """
    distribution = sys.modules.get("oracle.distribution")  # a test that uses Flink has imported it
    if distribution and session.items and not session.config.option.collectonly:
        for _ in distribution.fetch(everything=any(item.get_closest_marker("slow") for item in session.items)):
            pass  # tests report a jar that they need and that could not be fetched
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def s3() -> Iterator[S3Server]:
    """An S3 server, which this process and its children use.

    It runs from the beginning, because Spark's workers keep the environment in which Spark was started.
    """
    with s3_server() as server:
        before = dict(os.environ)
        os.environ.update(server.environment)
        stores._s3.cache_clear()  # the store of an earlier session in this process, whose server has ended
        stores._s3()  # now, because later a test may have set another endpoint for its child processes
        yield server
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="session")
def sources() -> Iterator[Untouched | None]:
    """The watch over the committed snapshots; None on systems that do not report changes of files."""
    if sys.platform != "linux":
        yield None
        return
    with untouched(Path(__file__).parent / "fixtures") as watched:
        yield watched


@pytest.fixture(autouse=True)
def knows_no_directories() -> None:
    """Let each test begin like a new process, which has not written into any directory."""
    owned.forget()


@pytest.fixture(autouse=True)
def keeps_its_store(s3: S3Server) -> Iterator[None]:  # noqa: ARG001
    """Restore the S3 store of this session after a test that has replaced it."""
    before = stores._s3()
    yield
    if stores._s3() is not before:
        stores.forget_stores()
        stores._s3()


@pytest.fixture(autouse=True)
def waits_for_the_disk() -> Iterator[None]:
    """Turn fsync off; folders may override this fixture."""
    with no_waits():
        yield


@pytest.fixture(autouse=True)
def touches_nothing_but_targets(s3: S3Server, sources: Untouched | None) -> Iterator[None]:
    """Check that tests write to S3 only where a plan, or the test itself, allows it (`support.bucket_policy`).

    Also check that no process changes a file of a committed snapshot, or opens it for writing.
    """
    yield
    refused, touched = s3.take_refused(), sources.take_touched() if sources else []
    assert not refused, f"requests to S3 outside of the declared places were refused: {refused}"
    assert not touched, f"files of committed snapshots were changed or opened for writing: {touched}"


@pytest.fixture(scope="session")
def strict_s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A second S3 server (versitygw), which only tests with `uses_strict_s3` use."""
    refusals = tmp_path_factory.mktemp("strict-policy") / "refused"
    with strict_s3_server(tmp_path_factory.mktemp("strict-s3")) as server, policed(server, refusals) as kept:
        yield kept


@pytest.fixture
def uses_strict_s3(strict_s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Let this process use the strict S3 server during the test."""
    for name, value in strict_s3.environment.items():
        monkeypatch.setenv(name, value)
    store = S3Store()
    monkeypatch.setattr(stores, "_s3", lambda: store)
    yield strict_s3
    refused = strict_s3.take_refused()
    assert not refused, f"requests to S3 outside of the declared places were refused: {refused}"
