"""A running Flink of each release line, started when the first test asks for it, shared by all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oracle.distribution import LINES
from oracle.harness import Flink
from support.needs import need
from support.slow import slow

_TEST_SECONDS = 900
"""Time for a test that has no limit of its own: Flink may be fetched and started in it."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(_TEST_SECONDS))


@pytest.fixture(scope="package")
def flink_1_20() -> Iterator[Flink]:
    need("javac", "real Flink is driven by Java that is compiled for it (a JDK 17)")
    with Flink(LINES["1.20"]) as flink:
        yield flink


@pytest.fixture(scope="package")
def flink_2() -> Iterator[Flink]:
    need("javac", "real Flink is driven by Java that is compiled for it (a JDK 17)")
    with Flink(LINES["2"]) as flink:
        yield flink


@pytest.fixture(params=[slow("flink_1_20"), "flink_2"])
def flink(request: pytest.FixtureRequest) -> Flink:
    """Each release line in turn; that there is an older one, quick tests show that ask for it."""
    running: Flink = request.getfixturevalue(request.param)
    return running
