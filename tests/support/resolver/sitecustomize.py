"""Resolves names below `localhost` to this machine (RFC 6761), which the system's resolver may not do."""

from __future__ import annotations

import socket
from typing import Any

_system_getaddrinfo = socket.getaddrinfo


def getaddrinfo(host: Any, *arguments: Any, **options: Any) -> Any:
    """Replace `socket.getaddrinfo`."""
    name = host.decode() if isinstance(host, bytes) else host
    return _system_getaddrinfo("127.0.0.1" if str(name).endswith(".localhost") else host, *arguments, **options)


socket.getaddrinfo = getaddrinfo
