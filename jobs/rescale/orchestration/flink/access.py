"""Access to Flink and to Kubernetes by Airflow connections: secrets stay in them, and go into requests alone."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import urlsplit

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from rescale.errors import RequestError
from rescale.orchestration.flink.rest import Flink

_KINDS = ("http", "generic")


def open_flink(flink: str) -> Flink:
    """The cluster at an address (`http://jobmanager:8081`), or that of an Airflow connection, by its id.

    A connection of type http or generic: host (with `https://` before it, or `https` as the schema, for TLS), port;
    login and password, or a password alone for a bearer token.
    """
    if "://" in flink:
        return Flink(_address(flink))
    try:
        connection = Connection.get(flink)
    except AirflowNotFoundException:
        raise RequestError(
            f"there is no connection {flink!r}",
            expected="the address of Flink's REST API (http://host:port), or the id of an Airflow connection",
            advice="create it in Airflow (Admin, Connections)",
        ) from None
    if connection.conn_type not in _KINDS or not connection.host:
        raise RequestError(
            f"the connection {flink!r} does not say where Flink's REST API is",
            expected=f"a connection of type {' or '.join(_KINDS)} with a host",
            found=connection.conn_type,
        )
    host = connection.host if "://" in connection.host else f"{connection.schema or 'http'}://{connection.host}"
    return Flink(_address(f"{host}:{connection.port}" if connection.port else host), _headers(connection))


def open_kubernetes(connection_id: str | None) -> Any:
    """Kubernetes' API for custom resources, by an Airflow connection; None: what this pod or user may do."""
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    from kubernetes.config import ConfigException

    try:
        return KubernetesHook(conn_id=connection_id).custom_object_client
    except AirflowNotFoundException:
        raise RequestError(
            f"there is no connection {connection_id!r}",
            advice="create it in Airflow (Admin, Connections), or leave the field empty to use the worker's own access",
        ) from None
    except ConfigException as error:
        raise RequestError("there is no access to Kubernetes", found=error) from None


def _address(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise RequestError("not an address of Flink's REST API", expected="http://host:port", found=parts.hostname)
    if parts.username is not None or parts.password is not None:
        raise RequestError(
            "a secret in an address would be seen by many",
            path=parts.hostname,
            advice="put login and password into an Airflow connection and name that",
        )
    return text.rstrip("/")


def _headers(connection: Connection) -> dict[str, str]:
    if not connection.password:
        return {}
    if not connection.login:
        return {"Authorization": f"Bearer {connection.password}"}
    both = base64.b64encode(f"{connection.login}:{connection.password}".encode()).decode()
    return {"Authorization": f"Basic {both}"}
