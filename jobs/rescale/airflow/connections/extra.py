"""The extra of an Airflow connection: further settings as a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Connection

from rescale.text.errors import RequestError


def extra_of(connection_id: str, connection: Connection) -> Mapping[str, Any]:
    """Return the fields of a connection's extra; Airflow itself accepts any JSON value.

    Raises `RequestError` for another value than an object or null, without showing it: it may be a password.
    """
    extra: object = connection.extra_dejson
    if extra is None:
        return {}
    if not isinstance(extra, Mapping):
        raise RequestError(
            f"the extra of the connection {connection_id!r} is no JSON object",
            expected="fields and their values",
            found=f"a {type(extra).__name__}",
            advice="check the connection (Admin, Connections)",
        )
    return extra
