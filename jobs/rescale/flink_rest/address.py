"""Checks the address of Flink's REST API that a user gives."""

from __future__ import annotations

from urllib.parse import urlsplit

from rescale.text.errors import RequestError


def address_of(text: str, login_advice: str) -> str:
    """Return the address `text` of Flink's REST API, without slashes at its end.

    Raises `RequestError` if `text` is not an http or https URL with a host, or has a query. Raises `RequestError` with
    `login_advice` if it contains a login or password.
    """
    try:
        parts = urlsplit(text)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and not parts.query and parts.port != 0
    except ValueError:  # the port is no number or too large, or a bracket is missing
        raise _invalid_address_error("a malformed address") from None
    if not is_valid:
        raise _invalid_address_error(parts.hostname)
    if parts.username is not None or parts.password is not None:
        raise RequestError(
            "the address contains a login or password, which everybody who sees the output could read",
            path=parts.hostname,
            advice=login_advice,
        )
    return text.rstrip("/")


def _invalid_address_error(host: str | None) -> RequestError:
    """Return the error for an invalid address; it shows only the host, because other parts may contain a password."""
    return RequestError("this is not an address of Flink's REST API", expected="http://host:port", found=host)
