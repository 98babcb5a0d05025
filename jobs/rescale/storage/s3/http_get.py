"""A GET over a connection of urllib3, with as much of HTTP as the answers of an S3 store use.

urllib3 and `http.client` spend most of a small answer's time on headers in the form of e-mail, redirects and encodings,
which S3 does not use.
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
    """Status, headers by their names in small letters, and a body of `size` bytes that is read, or closed.

    `size` is -1 for a body in chunks (`Transfer-Encoding`), which cannot be read here.
    """

    status: int
    headers: dict[str, str]
    size: int
    connection: Any
    pool: HTTPConnectionPool
    file: Any

    def read(self) -> bytes:
        """Return all of the body; `IncompleteReadError` if there is less."""
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
        """End the connection; nothing more is read."""
        with suppress(OSError):
            self.file.close()
            self.connection.close()


def get(pool: HTTPConnectionPool, target: str, headers: Iterable[tuple[str, str]], seconds: tuple[int, int]) -> Answer:
    """Request `target` and return the answer, whose body is still to be read.

    `seconds` limit the connect and each read. `HTTPClientError` if no answer comes, or none of HTTP.
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
        answered = {}
        while (line := file.readline(_LONGEST_LINE)) not in (b"\r\n", b"\n"):
            name, _, value = line.decode("latin-1").partition(":")
            answered[name.lower()] = value.strip()
            if not line:
                raise EOFError("the answer ends in its headers")
        return Answer(status, answered, int(answered.get("content-length", -1)), connection, pool, file)
    except Exception as error:  # an error of urllib3, of the socket, or of the parsing above
        with suppress(OSError):
            connection.close()
        raise HTTPClientError(error=error) from None


def _socket_of(connection: Any) -> Any:
    """Return the socket of a connection; None if it is not open."""
    return connection.sock
