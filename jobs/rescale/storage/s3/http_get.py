"""A GET over a connection of urllib3's, and no more of HTTP than the answers of an S3 store have.

Of the time that urllib3 and `http.client` take for a small answer, nearly all goes into what is not needed here:
headers as e-mail has them, redirects, encodings.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import HTTPClientError, IncompleteReadError

if TYPE_CHECKING:
    from urllib3 import HTTPConnectionPool

_LONGEST_LINE = 1 << 16


@dataclass
class Answer:
    """`headers` go by their names in small letters. The body has `size` bytes, and is read, or the answer closed.

    Of a body that comes in chunks the size is -1, and it cannot be read.
    """

    status: int
    headers: dict[str, str]
    size: int
    connection: Any
    pool: HTTPConnectionPool
    file: Any

    def read(self) -> bytes:
        """All of the body; `IncompleteReadError` if there is less."""
        assert self.size >= 0
        try:
            data: bytes = self.file.read(self.size)
        except OSError as error:
            self.close()
            raise HTTPClientError(error=error) from None
        if len(data) < self.size or self.headers.get("connection", "").lower() == "close":
            self.close()
        else:
            self.file.close()
            self.pool._put_conn(self.connection)
        if len(data) < self.size:
            raise IncompleteReadError(actual_bytes=len(data), expected_bytes=self.size)
        return data

    def close(self) -> None:
        """Nothing more is read: the connection ends."""
        with suppress(OSError):
            self.file.close()
            self.connection.close()


def get(pool: HTTPConnectionPool, target: str, headers: Iterable[tuple[str, str]], seconds: tuple[int, int]) -> Answer:
    """Asks for `target`, and waits for an answer at most so many `seconds` (to connect, to read).

    `HTTPClientError` if none comes, or one that is not understood.
    """
    connection = pool._get_conn()
    try:
        if (socket := _socket_of(connection)) is None:
            connection.timeout = seconds[0]
            connection.connect()
            socket = _socket_of(connection)
            socket.settimeout(seconds[1])
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        socket.sendall(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode("latin-1"))
        file = socket.makefile("rb")
        status = int(file.readline(_LONGEST_LINE).split(None, 2)[1])
        found = {}
        while (line := file.readline(_LONGEST_LINE)) not in (b"\r\n", b"\n"):
            name, _, value = line.decode("latin-1").partition(":")
            found[name.lower()] = value.strip()
            if not line:
                raise EOFError("the answer ends in its headers")
        return Answer(status, found, int(found.get("content-length", -1)), connection, pool, file)
    except Exception as error:  # urllib3's own, of the socket, or of an answer that is none
        with suppress(OSError):
            connection.close()
        raise HTTPClientError(error=error) from None


def _socket_of(connection: Any) -> Any:
    """None of one that is not open."""
    return connection.sock
