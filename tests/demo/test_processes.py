"""Free ports for servers."""

from __future__ import annotations

import socket
from itertools import islice

import pytest

from rescale.demo import processes


def test_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        monkeypatch.setattr(processes, "_PORTS", range(port, port + 1))
        assert list(processes.free_ports()) == []
    assert processes.free_port() == port


def test_ports_are_given_once() -> None:
    assert len(set(islice(processes.free_ports(), 100))) == 100
