"""Access to Flink and to Kubernetes by Airflow connections: secrets stay in them, and go into requests alone."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from rescale.errors import RequestError
from rescale.orchestration.connections.access import no_connection
from rescale.orchestration.flink.rest import Flink

_KINDS = ("http", "generic")

_OPTIONS = {
    *("headers", "verify", "cert", "proxies", "proxy"),
    *("stream", "timeout", "allow_redirects", "max_redirects", "trust_env", "check_response"),
}
"""Fields of an extra that are no headers; the second line is about requests that we do not make as `requests` does."""


def open_flink(flink: str) -> Flink:
    """The cluster at an address (`http://jobmanager:8081`), or that of an Airflow connection, by its id.

    A connection of type http or generic: host (with `https://` before it, or `https` as the schema, for TLS), port;
    login and password, or a password alone for a bearer token. Of the extra, as Airflow's `HttpHook` has it: further
    `headers`, `verify`, `cert` and `proxies`.
    """
    if "://" in flink:
        return Flink(_address(flink))
    try:
        connection = Connection.get(flink)
    except AirflowNotFoundException:
        raise no_connection(flink, "give the address of Flink's REST API (http://host:port)") from None
    if connection.conn_type not in _KINDS or not connection.host:
        raise RequestError(
            f"the connection {flink!r} does not say where Flink's REST API is",
            expected=f"a connection of type {' or '.join(_KINDS)} with a host",
            found=connection.conn_type,
        )
    host = connection.host if "://" in connection.host else f"{connection.schema or 'http'}://{connection.host}"
    address = _address(f"{host}:{connection.port}" if connection.port else host)
    return Flink(address, _sendable(flink, _headers(connection)), **_transport(flink, connection.extra_dejson))


def open_kubernetes(connection_id: str | None) -> Any:
    """Kubernetes' API for custom resources, by an Airflow connection; None: what this pod or user may do."""
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    from kubernetes.config import ConfigException

    try:
        return KubernetesHook(conn_id=connection_id).custom_object_client
    except AirflowNotFoundException:
        raise no_connection(connection_id or "", "leave the field empty to use the worker's own access") from None
    except ConfigException as error:
        raise RequestError("there is no access to Kubernetes", found=error) from None


def _address(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and not parts.query and parts.port != 0
    except ValueError:  # a port that is no number, or too large; half a bracket
        raise _no_address("what cannot be read as an address") from None
    if not good:
        raise _no_address(parts.hostname)
    if parts.username is not None or parts.password is not None:
        raise RequestError(
            "a secret in an address would be seen by many",
            path=parts.hostname,
            advice="put login and password into an Airflow connection and name that",
        )
    return text.rstrip("/")


def _no_address(found: str | None) -> RequestError:
    """All of it is not said: there may be a password in it."""
    return RequestError("not an address of Flink's REST API", expected="http://host:port", found=found)


def _headers(connection: Connection) -> dict[str, str]:
    extra = connection.extra_dejson
    # HttpHook takes for a header what is none of its own options.
    more = {name: str(value) for name, value in extra.items() if name not in _OPTIONS}
    headers = {**more, **extra.get("headers", {})}
    if not connection.password:
        return headers
    if not connection.login:
        return {**headers, "Authorization": f"Bearer {connection.password}"}
    both = base64.b64encode(f"{connection.login}:{connection.password}".encode()).decode()
    return {**headers, "Authorization": f"Basic {both}"}


def _sendable(connection_id: str, headers: dict[str, str]) -> dict[str, str]:
    """The headers; `RequestError` if one cannot be sent: who tries to would say all of it."""
    for name, value in headers.items():
        words = name + value
        if not (words.isascii() and words.isprintable()):
            raise RequestError(
                f"the connection {connection_id!r} has signs that no request may have",
                found=f"in the header {name!r}",
                advice="look at its password and at its extra: is there a line break?",
            )
    return headers


def _transport(connection_id: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """How to connect; `RequestError` for certificates that cannot be read."""
    verify, cert, proxies = extra.get("verify", True), extra.get("cert"), extra.get("proxies") or {}
    transport: dict[str, Any] = {}
    try:
        if isinstance(verify, str) or cert:
            context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
            if verify is False:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if cert:
                context.load_cert_chain(*([cert] if isinstance(cert, str) else cert))
            transport["verify"] = context
        elif verify is False:
            transport["verify"] = False
    except (OSError, TypeError) as error:
        raise RequestError(
            f"the certificates of the connection {connection_id!r} cannot be read",
            expected="verify: true, false or a file of authorities; cert: a file, or those of certificate and key",
            found=error,
        ) from None
    if proxy := proxies.get("https") or proxies.get("http"):
        transport["proxy"] = proxy
    return transport
