"""A running Flink of each release line, started when the first test asks for it, shared by all."""

from __future__ import annotations

from collections.abc import Iterator

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
    """Each release line in turn; that there is an older one, quick tests show that ask for it."""
    running: Flink = request.getfixturevalue(request.param)
    return running
