"""Access to S3 by an Airflow connection: it becomes the standard AWS variables, for as long as a task needs them.

Airflow masks the values of a connection in its logs; ours go nowhere but into the environment of this process and of
those that it starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from rescale.errors import RequestError

DRIVER_POD = "RESCALE_DRIVER_POD"
"""Variable with the path of a pod's template: where it is set, the steps that move or read state are pods."""

_VARIABLE_OF_EXTRA = {
    "aws_access_key_id": "AWS_ACCESS_KEY_ID",
    "aws_secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "aws_session_token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "profile_name": "AWS_PROFILE",
    "region_name": "AWS_REGION",
}


def aws_variables(connection_id: str) -> dict[str, str]:
    """What the connection stands for; `RequestError` names what is not there or not understood."""
    try:
        connection = Connection.get(connection_id)
    except AirflowNotFoundException:
        raise RequestError(
            f"there is no connection {connection_id!r}",
            advice="create it in Airflow (Admin, Connections), or leave the field empty to use the worker's own access",
        ) from None
    if connection.conn_type != "aws":
        raise RequestError(
            f"the connection {connection_id!r} does not give access to S3",
            expected="a connection of type aws",
            found=connection.conn_type,
        )
    extra: Mapping[str, Any] = connection.extra_dejson
    unknown = sorted(key for key, value in extra.items() if value and key not in _VARIABLE_OF_EXTRA)
    if unknown:
        raise RequestError(
            f"the connection {connection_id!r} says more than is understood",
            expected=f"login and password, and in the extra at most {', '.join(_VARIABLE_OF_EXTRA)}",
            found=", ".join(unknown),
            advice="leave these out, or give the worker access by itself (a role) and leave the field empty",
        )
    variables = {_VARIABLE_OF_EXTRA[key]: str(value) for key, value in extra.items() if value}
    if connection.login and connection.password:
        variables |= {"AWS_ACCESS_KEY_ID": connection.login, "AWS_SECRET_ACCESS_KEY": connection.password}
    return variables


@contextmanager
def storage_access(connection_id: str | None) -> Iterator[None]:
    """In the block, this process and those that it starts have the access of the connection (None: their own).

    `RequestError` for a connection where steps are pods: it would end in the worker, and they might see another store.
    """
    if connection_id and DRIVER_POD in os.environ:
        raise RequestError(
            f"the connection {connection_id!r} does not reach the pods that steps run in",
            advice="leave the field empty, and give workers and pods the same access: a Secret that the chart's value "
            "s3.secret names, or service accounts with a role (workload identity)",
        )
    before = dict(os.environ)
    os.environ.update(aws_variables(connection_id) if connection_id else {})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
