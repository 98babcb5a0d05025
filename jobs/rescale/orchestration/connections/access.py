"""Access to S3 by an Airflow connection, for as long as a task needs it.

Airflow's own hook says what a connection stands for: keys, a role that is assumed, a web identity, a profile. What it
finds becomes the standard AWS variables of this process and of those that it starts; keys themselves are served, so
that they can be renewed (`credentials`). Airflow masks the values of a connection in its logs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from rescale.errors import RequestError, RescaleError
from rescale.orchestration.connections.credentials import served

if TYPE_CHECKING:
    from rescale.storage.store import Store

DRIVER_POD = "RESCALE_DRIVER_POD"
"""Variable with the path of a pod's template: where it is set, the steps that move or read state are pods."""

log = logging.getLogger(__name__)

_OWN_ACCESS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
)
"""Ways of the worker's own to get keys, which boto3 would take before those of the connection."""

_HOOK_UNDERSTANDS = {
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "profile_name", "session_kwargs"),
    *("region_name", "endpoint_url", "service_config", "verify", "config_kwargs"),
    *("role_arn", "assume_role_method", "assume_role_kwargs", "assume_role_with_saml"),
    *("assume_role_with_web_identity_federation", "assume_role_with_web_identity_federation_audience"),
    "assume_role_with_web_identity_token_file",
}

_OURS_ANYWAY = {
    *("retries", "connect_timeout", "read_timeout", "max_pool_connections", "tcp_keepalive", "region_name"),
    *("user_agent", "user_agent_extra", "user_agent_appid"),
}
"""Settings of a client that Rescale has its own of: that they are another's changes no result."""

_CHECKSUMS = {"request_checksum_calculation", "response_checksum_validation"}
"""Settings that have a variable of this name."""


def no_connection(connection_id: str, advice: str) -> RequestError:
    """What the name of a connection that Airflow does not have is answered with."""
    return RequestError(
        f"there is no connection {connection_id!r}", advice=f"create it in Airflow (Admin, Connections), or {advice}"
    )


@contextmanager
def storage_access(connection_id: str | None) -> Iterator[None]:
    """In the block, this process and those that it starts have the access of the connection (None: their own).

    `RequestError` for a connection where steps are pods: it would end in the worker, and they might see another store.
    """
    if not connection_id:
        yield
        return
    if DRIVER_POD in os.environ:
        raise RequestError(
            f"the connection {connection_id!r} does not reach the pods that steps run in",
            advice="leave the field empty, and give workers and pods the same access: a Secret that the chart's value "
            "s3.secret names, or service accounts with a role (workload identity)",
        )
    before = dict(os.environ)
    with ExitStack() as stack:
        variables = _variables(connection_id, stack)
        for name in _OWN_ACCESS:
            os.environ.pop(name, None)
        os.environ.update(variables)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)


def s3_store_of(connection_id: str) -> Store:
    """S3 as the connection reaches it, for a process that serves many at once: its variables stay as they are."""
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    from botocore.config import Config

    from rescale.storage.s3.s3_errors import translated
    from rescale.storage.s3.s3_store import S3Store

    _aws_connection(connection_id)
    hook = AwsBaseHook(aws_conn_id=connection_id, client_type="s3")
    try:
        with translated(connection_id):
            own = hook.conn_config.get_service_endpoint_url("s3") is not None
            config = Config(s3={"addressing_style": "path"} if own else None).merge(hook.config)
            return S3Store(hook.get_client_type(hook.region_name, config))
    except RescaleError:
        raise
    except Exception as error:
        raise _unusable(connection_id, error) from None


def _unusable(connection_id: str, error: Exception) -> RequestError:
    """For what a hook itself raises, or whatever it is federated with."""
    return RequestError(
        f"the connection {connection_id!r} cannot be used as it is: {error}",
        advice="look at the connection (Admin, Connections)",
    )


def _variables(connection_id: str, stack: ExitStack) -> dict[str, str]:
    """What the connection stands for; `RequestError` names what is not there or cannot be handed on."""
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook  # brings boto3

    from rescale.storage.s3.s3_errors import translated

    connection = _aws_connection(connection_id)
    told = told_variables(connection_id, connection.extra_dejson)
    try:
        with translated(connection_id):
            credentials = AwsBaseHook(aws_conn_id=connection_id, client_type="s3").get_session().get_credentials()
            if credentials is not None:
                credentials.get_frozen_credentials()  # a role is assumed here, or refused
    except RescaleError as error:
        error.what = f"the connection {connection_id!r} gives no access: {error.what}"
        error.advice = "look at the connection (Admin, Connections): keys, role_arn, and what the role trusts"
        raise
    except Exception as error:
        raise _unusable(connection_id, error) from None
    if credentials is None:
        raise RequestError(
            f"the connection {connection_id!r} gives no access: it holds no keys, and the worker has none of its own",
            advice="fill in login (access key id) and password (secret access key), or a role",
        )
    return {**told, **stack.enter_context(served(credentials))}


def _aws_connection(connection_id: str) -> Connection:
    try:
        connection: Connection = Connection.get(connection_id)
    except AirflowNotFoundException:
        raise no_connection(connection_id, "leave the field empty to use the worker's own access") from None
    if connection.conn_type != "aws":
        raise RequestError(
            f"the connection {connection_id!r} does not give access to S3",
            expected="a connection of type aws (Amazon Web Services)",
            found=connection.conn_type,
        )
    return connection


def told_variables(connection_id: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """Region, endpoint and the like of a connection's extra, as variables; `RequestError` names what has none."""
    for field in sorted(extra.keys() - _HOOK_UNDERSTANDS):
        log.warning("the connection %r has a field in its extra that nobody reads: %s", connection_id, field)
    services = _fields(connection_id, "service_config", extra.get("service_config"))
    s3, sts = (_fields(connection_id, f"service_config.{name}", services.get(name)) for name in ("s3", "sts"))
    variables = {
        "AWS_ENDPOINT_URL_S3": s3.get("endpoint_url") or extra.get("endpoint_url"),
        "AWS_ENDPOINT_URL_STS": sts.get("endpoint_url"),
        "AWS_REGION": extra.get("region_name"),
        # What the worker's own files say of keys would go before what is served.
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_CONFIG_FILE": os.devnull,
        **_verify(connection_id, extra.get("verify")),
        **_client(connection_id, _fields(connection_id, "config_kwargs", extra.get("config_kwargs"))),
    }
    return {name: str(value) for name, value in variables.items() if value}


def _fields(connection_id: str, field: str, value: Any) -> Mapping[str, Any]:
    """What stands under a field that has fields itself; what else it may hold, a password perhaps, is not shown."""
    if not isinstance(value or {}, Mapping):
        raise _cannot_be_handed_on(connection_id, field, "fields and their values", f"a {type(value).__name__}")
    return value or {}


def _verify(connection_id: str, verify: Any) -> dict[str, str]:
    if verify in (None, "", True):
        return {}
    if isinstance(verify, str):
        return {"AWS_CA_BUNDLE": verify}
    raise _cannot_be_handed_on(connection_id, "verify", "the path of a file with the certificates to trust", verify)


def _client(connection_id: str, settings: Mapping[str, Any]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for name, value in settings.items():
        if name == "proxies":
            proxies = _fields(connection_id, "config_kwargs.proxies", value)
            variables |= {f"{scheme.upper()}_PROXY": url for scheme, url in proxies.items()}
        elif name in _CHECKSUMS:
            variables[f"AWS_{name.upper()}"] = value
        elif name == "s3" and value in ({}, {"addressing_style": "auto"}, {"addressing_style": "path"}):
            continue  # as it is done anyway
        elif (name, value) != ("signature_version", "s3v4") and name not in _OURS_ANYWAY:
            raise _cannot_be_handed_on(connection_id, f"config_kwargs.{name}", "a setting that can be", value)
    return variables


def _cannot_be_handed_on(connection_id: str, field: str, expected: str, found: object) -> RequestError:
    return RequestError(
        f"what the connection {connection_id!r} says cannot be handed on to the steps: {field}",
        expected=expected,
        found=found,
        advice="leave it out of the connection's extra",
    )
