"""Access to Flink and Kubernetes by Airflow connections. Secrets appear in requests only, never in logs or errors."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import Connection

from rescale.airflow.connections.access import missing_connection_error
from rescale.airflow.connections.extra import extra_of
from rescale.flink_rest.address import address_of
from rescale.flink_rest.client import Flink
from rescale.text.errors import RequestError

_CONNECTION_TYPES = ("http", "generic")

_SECRETS_ADVICE = "put login and password into an Airflow connection, and name the connection"
_ACCESS_ADVICE = "name an Airflow connection with login and password, or with only a password for a bearer token"
"""Advice for addresses that contain a password (`_SECRETS_ADVICE`), and for a Flink that denies access."""

_NO_HEADER_FIELDS = {
    *("headers", "verify", "cert", "proxies", "proxy"),
    *("stream", "timeout", "allow_redirects", "max_redirects", "trust_env", "check_response"),
}
"""Fields of a connection's extra that are not HTTP headers.

The fields in the second line are for the library `requests`, and are ignored.
"""


def open_flink(flink: str) -> Flink:
    """Return a client for the REST API of a Flink cluster.

    `flink` is the address (`http://jobmanager:8081`), or the id of an Airflow connection of type http or generic. The
    connection holds the host, and a port if the address has one. For TLS, the host begins with `https://`, or the
    schema is `https`. A login and a password are sent as basic authentication, a password without a login as a bearer
    token. The extra may hold `headers`, `verify`, `cert` and `proxies`, as for Airflow's `HttpHook`.
    """
    if "://" in flink:
        return Flink(address_of(flink, _SECRETS_ADVICE), access_advice=_ACCESS_ADVICE)
    try:
        connection = Connection.get(flink)
    except AirflowNotFoundException:
        raise missing_connection_error(flink, "give the address of Flink's REST API (http://host:port)") from None
    if connection.conn_type not in _CONNECTION_TYPES or not connection.host:
        raise RequestError(
            f"the connection {flink!r} does not say where Flink's REST API is",
            expected=f"a connection of type {' or '.join(_CONNECTION_TYPES)} with a host",
            found=connection.conn_type,
        )
    host = connection.host if "://" in connection.host else f"{connection.schema or 'http'}://{connection.host}"
    address = address_of(f"{host}:{connection.port}" if connection.port else host, _SECRETS_ADVICE)
    extra = extra_of(flink, connection)
    headers = _checked_headers(flink, _request_headers(flink, connection, extra))
    transport_settings = _tls_settings(flink, extra) | _proxy_settings(flink, extra, urlsplit(address).scheme)
    return Flink(address, headers, access_advice=_ACCESS_ADVICE, **transport_settings)


def open_kubernetes(connection_id: str | None) -> Any:
    """Return a client of Kubernetes' API for custom resources, with the access of an Airflow connection.

    If `connection_id` is None, the client has the access of this pod or user.
    """
    from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
    from kubernetes.config import ConfigException

    try:
        return KubernetesHook(conn_id=connection_id).custom_object_client
    except AirflowNotFoundException:
        raise missing_connection_error(
            connection_id or "", "leave the field empty to use the worker's own access"
        ) from None
    except ConfigException as error:
        raise RequestError(
            "there is no access to Kubernetes", found=error, advice="name an Airflow connection of type kubernetes"
        ) from None


def _request_headers(connection_id: str, connection: Connection, extra: Mapping[str, Any]) -> dict[str, str]:
    # As with HttpHook, every field of the extra that is not an option is a header.
    extra_headers = {name: value for name, value in extra.items() if name not in _NO_HEADER_FIELDS}
    all_headers = {**extra_headers, **_nested_fields(connection_id, "headers", extra.get("headers"))}
    headers = {name: str(value) for name, value in all_headers.items()}
    if not connection.password:
        return headers
    if not connection.login:
        return {**headers, "Authorization": f"Bearer {connection.password}"}
    encoded_credentials = base64.b64encode(f"{connection.login}:{connection.password}".encode()).decode()
    return {**headers, "Authorization": f"Basic {encoded_credentials}"}


def _checked_headers(connection_id: str, headers: dict[str, str]) -> dict[str, str]:
    """Return the headers unchanged. Raises `RequestError` for an invalid header.

    The error does not show the header's value; the HTTP client's error would.
    """
    for name, value in headers.items():
        header_text = name + value
        if not (header_text.isascii() and header_text.isprintable()):
            raise RequestError(
                f"the connection {connection_id!r} has characters that an HTTP header may not contain",
                found=f"in the header {name!r}",
                advice="check its password and its extra for line breaks",
            )
    return headers


def _tls_settings(connection_id: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's settings for certificates. Raises `RequestError` if a certificate cannot be read."""
    verify, cert = extra.get("verify", True), extra.get("cert")
    transport_settings: dict[str, Any] = {}
    try:
        if isinstance(verify, str) or cert:
            context = ssl.create_default_context(cafile=verify if isinstance(verify, str) else None)
            if verify is False:
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            if cert:
                context.load_cert_chain(*([cert] if isinstance(cert, str) else cert))
            transport_settings["verify"] = context
        elif verify is False:
            transport_settings["verify"] = False
    except (OSError, TypeError) as error:
        raise RequestError(
            f"the certificates of the connection {connection_id!r} cannot be read",
            expected="verify: true, false or a file of authorities; cert: a file, or files for certificate and key",
            found=error,
        ) from None
    return transport_settings


def _proxy_settings(connection_id: str, extra: Mapping[str, Any], scheme: str) -> dict[str, str]:
    """Return the client's setting for the proxy of this scheme. Raises `RequestError` if it is not an address."""
    proxy = _nested_fields(connection_id, "proxies", extra.get("proxies")).get(scheme)
    if not proxy:
        return {}
    if not _is_address(proxy):
        raise RequestError(  # the error omits the value, which may contain a password
            f"the connection {connection_id!r} has a proxy that is not an address: proxies.{scheme}",
            expected="http://host:port",
            advice="check the connection's extra",
        )
    return {"proxy": proxy}


def _is_address(text: Any) -> bool:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, TypeError):
        return False
    has_port = url.port is None or 0 < url.port < 1 << 16  # the system would truncate a larger port
    return url.scheme in ("http", "https") and bool(url.host) and has_port


def _nested_fields(connection_id: str, field: str, nested_value: Any) -> Mapping[str, Any]:
    """Return the fields of `nested_value`, the value of the extra's `field`. Raises `RequestError` for another type."""
    if nested_value is not None and not isinstance(nested_value, Mapping):
        raise RequestError(
            f"the extra of the connection {connection_id!r} has a wrong value: {field}",
            expected="fields and their values",
            found=f"a {type(nested_value).__name__}",
        )
    return nested_value or {}
