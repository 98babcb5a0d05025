"""Names below `localhost` are this machine, as RFC 6761 has it, also where the system's resolver does not know that."""

from __future__ import annotations

import socket
from typing import Any

_of_system = socket.getaddrinfo


def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
    """Return what `socket.getaddrinfo` does."""
    name = host.decode() if isinstance(host, bytes) else host
    return _of_system("127.0.0.1" if str(name).endswith(".localhost") else host, *arguments, **options)


socket.getaddrinfo = getaddrinfo
