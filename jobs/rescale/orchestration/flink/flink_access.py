"""Access to Flink and to Kubernetes by Airflow connections: secrets stay in them, and go into requests alone."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
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
    headers, extra = _sendable(flink, _headers(flink, connection)), connection.extra_dejson
    return Flink(address, headers, **_transport(flink, extra), **_proxy(flink, extra, urlsplit(address).scheme))


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


def _headers(connection_id: str, connection: Connection) -> dict[str, str]:
    extra = connection.extra_dejson
    # HttpHook takes for a header what is none of its own options.
    more = {name: value for name, value in extra.items() if name not in _OPTIONS}
    given = {**more, **_fields(connection_id, "headers", extra.get("headers"))}
    headers = {name: str(value) for name, value in given.items()}
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
    verify, cert = extra.get("verify", True), extra.get("cert")
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
    return transport


def _proxy(connection_id: str, extra: Mapping[str, Any], scheme: str) -> dict[str, str]:
    """The one for addresses of this scheme, if there is one; `RequestError` if it is no address itself."""
    proxy = _fields(connection_id, "proxies", extra.get("proxies")).get(scheme)
    if not proxy:
        return {}
    if not _is_address(proxy):
        raise RequestError(  # without the address: there may be a password in it
            f"the connection {connection_id!r} has a proxy that is no address: proxies.{scheme}",
            expected="http://host:port",
            advice="look at the connection's extra",
        )
    return {"proxy": proxy}


def _is_address(text: Any) -> bool:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError):
        return False
    has_port = url.port is None or 0 < url.port < 1 << 16  # of a larger one the system takes what is left of it
    return url.scheme in ("http", "https") and bool(url.host) and has_port


def _fields(connection_id: str, field: str, value: Any) -> Mapping[str, Any]:
    """What stands under a field that has fields itself; `RequestError` if it has none."""
    if value is not None and not isinstance(value, Mapping):
        raise RequestError(
            f"the connection {connection_id!r} has an extra of another form than Airflow's: {field}",
            expected="fields and their values",
            found=f"a {type(value).__name__}",
        )
    return value or {}
