"""Workers of Spark whose session ends."""

from __future__ import annotations

import socket

import pytest

from rescale.execution import worker_daemon


def test_a_closed_socket_ends_a_worker_without_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def answering(sock: socket.socket, _: bool) -> int:
        sock.sendall(b"done")
        return 0

    monkeypatch.setattr(worker_daemon, "_worker", answering)
    ours, theirs = socket.socketpair()
    assert worker_daemon.worker(ours, True) == 0
    theirs.close()
    assert worker_daemon.worker(ours, True) == 1
    ours.close()
