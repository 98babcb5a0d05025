"""A Flink of each release line, which starts for the first test that needs it and is shared by all tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from oracle.distribution import LINES
from oracle.harness import Flink
from support.slow import slow


@pytest.fixture(scope="package")
def flink_1_20() -> Iterator[Flink]:
    with Flink(LINES["1.20"]) as flink:
        yield flink


@pytest.fixture(scope="package")
def flink_2() -> Iterator[Flink]:
    with Flink(LINES["2"]) as flink:
        yield flink


@pytest.fixture(params=[slow("flink_1_20"), "flink_2"])
def flink(request: pytest.FixtureRequest) -> Flink:
    """Return a Flink of each release line in turn. Quick tests of the older line use `flink_1_20`."""
    running_flink: Flink = request.getfixturevalue(request.param)
    return running_flink


RETAIN_50_CHECKPOINTS = {"state.checkpoints.num-retained": "50", "execution.checkpointing.num-retained": "50"}


@pytest.fixture(scope="module")
def retaining_flink() -> Iterator[Callable[[str], Flink]]:
    """A function that returns a running Flink of a release line, which retains all checkpoints."""
    with ExitStack() as stack:
        yield cache(lambda line: stack.enter_context(Flink(LINES[line], RETAIN_50_CHECKPOINTS)))
