"""Access to S3 by an Airflow connection, for as long as a task needs it.

Airflow's own hook resolves the connection to credentials: keys, an assumed role, a web identity or a profile. Other
settings, such as region and endpoint, become AWS environment variables of this process and its children. The keys are
served over the loopback (`credentials`), so that they can be renewed. Airflow masks the values of a connection in its
logs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import Connection

from rescale.airflow.connections.extra import extra_of
from rescale.airflow.connections.spark import platform_spark
from rescale.text.errors import RequestError, RescaleError

if TYPE_CHECKING:
    from rescale.storage.store import Store

DRIVER_POD_VARIABLE = "RESCALE_DRIVER_POD"
"""Environment variable with the path of a pod template; if set, the steps that move or read state run in pods."""

log = logging.getLogger(__name__)

_OWN_ACCESS_VARIABLES = (
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
"""Environment variables with the worker's own keys, which boto3 would prefer to the connection's keys."""

_FIELDS_OF_HOOK = {
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "profile_name", "session_kwargs"),
    *("region_name", "endpoint_url", "service_config", "verify", "config_kwargs"),
    *("role_arn", "assume_role_method", "assume_role_kwargs", "assume_role_with_saml"),
    *("assume_role_with_web_identity_federation", "assume_role_with_web_identity_federation_audience"),
    "assume_role_with_web_identity_token_file",
}

_IGNORED_SETTINGS = {
    *("retries", "connect_timeout", "read_timeout", "max_pool_connections", "tcp_keepalive", "region_name"),
    *("user_agent", "user_agent_extra", "user_agent_appid"),
}
"""Client settings that Rescale sets itself. Ignoring them changes no result."""

_CHECKSUM_SETTINGS = {"request_checksum_calculation", "response_checksum_validation"}
"""Client settings that have an AWS environment variable of the same name."""


def missing_connection_error(connection_id: str, advice: str) -> RequestError:
    """Return the error for a connection id that Airflow does not know."""
    return RequestError(
        f"there is no connection {connection_id!r}", advice=f"create it in Airflow (Admin, Connections), or {advice}"
    )


@contextmanager
def storage_access(connection_id: str | None) -> Iterator[None]:
    """Give this process and its children the access of a connection inside the block (None: their own access).

    Raises an error if the connection gives no access. Raises `RequestError` if steps run on other machines: they would
    not have the access of the connection, and might even see another store.
    """
    if not connection_id:
        yield
        return
    _refuse_where_steps_run_elsewhere(connection_id)
    environment_before = dict(os.environ)
    with ExitStack() as stack:
        variables = _aws_variables(connection_id, stack)
        for name in _OWN_ACCESS_VARIABLES:
            os.environ.pop(name, None)
        os.environ.update(variables)
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(environment_before)


@contextmanager
def form_access(params: Mapping[str, Any], *, reads_source: bool = False) -> Iterator[None]:
    """Inside the block, give this process and its children the access that a form names, to both source and target.

    If the form names no connection for the source, the target's connection is used for both. If it names two
    connections, a task uses the target's connection for all places until it declares its targets (`use_targets`). With
    `reads_source`, it uses the source's connection for all places instead. Raises the errors of `storage_access`.
    """
    from rescale.storage.sides import has_side_variables
    from rescale.storage.store import forget_stores

    environment_before, source_connection = dict(os.environ), params.get("source_connection")
    with ExitStack() as stack:
        source_variables = {} if source_connection is None else _source_variables(source_connection, stack)
        stack.enter_context(storage_access(params.get("connection")))
        if not source_variables and not has_side_variables():
            yield
            return
        try:
            _apply_source_variables(source_variables, reads_source=reads_source)
            yield
        finally:
            os.environ.clear()
            os.environ.update(environment_before)
            forget_stores()


def _apply_source_variables(source_variables: Mapping[str, str], *, reads_source: bool) -> None:
    from rescale.storage.sides import StoreSide, configure_side, declare_targets
    from rescale.storage.store import forget_stores

    if source_variables:
        configure_side(StoreSide.SOURCE, source_variables)
        forget_stores()
    if reads_source:
        declare_targets([])


def _source_variables(connection_id: str, stack: ExitStack) -> dict[str, str]:
    """Return the environment variables of the source's own connection.

    Raises `RequestError` for a setting that both stores would share, such as a proxy.
    """
    _refuse_where_steps_run_elsewhere(connection_id)
    variables = _aws_variables(connection_id, stack)
    for name in variables:
        if not name.startswith("AWS_"):
            raise _unsupported_error(connection_id, "config_kwargs.proxies", "one proxy for both stores", name)
    return {"AWS_CA_BUNDLE": os.environ.get("AWS_CA_BUNDLE", ""), **variables}


def _refuse_where_steps_run_elsewhere(connection_id: str) -> None:
    """Raise `RequestError` if steps run in pods or on a Spark cluster, to which this process cannot serve keys."""
    if DRIVER_POD_VARIABLE in os.environ:
        raise RequestError(
            f"steps run in pods, which cannot use the connection {connection_id!r}",
            advice="leave the field empty, and give workers and pods the same access: Secrets that the chart's values "
            "s3.secret and s3.source.secret name, or service accounts with a role (workload identity)",
        )
    if (spark := platform_spark()).is_cluster:
        raise RequestError(
            f"executors of the Spark master {spark.master} cannot use the connection {connection_id!r}",
            advice="leave the field empty, and give Airflow's workers and Spark's the same access in their own "
            "environment: AWS variables, or a role of their machines",
        )


def s3_store_of(connection_id: str) -> Store:
    """Return the S3 store of a connection.

    The environment variables of this process stay unchanged: it is the api-server, which serves many users.
    """
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    from botocore.config import Config

    from rescale.storage.s3.object_settings import ObjectSettings
    from rescale.storage.s3.s3_client import CONNECT_SECONDS, READ_SECONDS, limit_retry_time
    from rescale.storage.s3.s3_errors import translated_errors
    from rescale.storage.s3.s3_store import S3Store

    connection = _aws_connection(connection_id)
    settings = _object_settings(connection_id, _s3_fields(connection_id, extra_of(connection_id, connection)))
    hook = AwsBaseHook(aws_conn_id=connection_id, client_type="s3")
    try:
        with translated_errors(connection_id):
            config = Config(connect_timeout=CONNECT_SECONDS, read_timeout=READ_SECONDS).merge(hook.config)
            client = hook.get_client_type(hook.region_name, config)
        ObjectSettings.read({**os.environ, **settings}).apply(client)
        limit_retry_time(client)
        return S3Store(client)
    except RescaleError:
        raise
    except Exception as error:
        raise _unusable_connection_error(connection_id, error) from None


def _unusable_connection_error(connection_id: str, error: Exception) -> RequestError:
    """Return the error for a connection whose hook, or the identity provider behind the hook, has raised `error`."""
    return RequestError(
        f"the connection {connection_id!r} does not work: {error}",
        advice="check the connection (Admin, Connections)",
    )


def _aws_variables(connection_id: str, stack: ExitStack) -> dict[str, str]:
    """Return a connection as environment variables. Raises `RequestError` for a missing or an unsupported setting."""
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook  # imports boto3

    from rescale.airflow.connections.credentials import serve_credentials
    from rescale.storage.s3.s3_errors import translated_errors

    connection = _aws_connection(connection_id)
    variables = extra_variables(connection_id, extra_of(connection_id, connection))
    try:
        with translated_errors(connection_id):
            credentials = AwsBaseHook(aws_conn_id=connection_id, client_type="s3").get_session().get_credentials()
            if credentials is not None:
                credentials.get_frozen_credentials()  # this assumes the role, if the connection has one
    except RescaleError as error:
        error.what = f"the connection {connection_id!r} gives no access: {error.what}"
        error.advice = "check the connection (Admin, Connections): keys, role_arn, and the trust policy of the role"
        raise
    except Exception as error:
        raise _unusable_connection_error(connection_id, error) from None
    if credentials is None:
        raise RequestError(
            f"the connection {connection_id!r} gives no access: it has no keys, and neither has the worker",
            advice="fill in login (access key id) and password (secret access key), or a role",
        )
    return {**variables, **stack.enter_context(serve_credentials(credentials))}


def _aws_connection(connection_id: str) -> Connection:
    try:
        connection: Connection = Connection.get(connection_id)
    except AirflowNotFoundException:
        raise missing_connection_error(connection_id, "leave the field empty to use the worker's own access") from None
    if connection.conn_type != "aws":
        raise RequestError(
            f"the connection {connection_id!r} does not give access to S3",
            expected="a connection of type aws (Amazon Web Services)",
            found=connection.conn_type,
        )
    return connection


def extra_variables(connection_id: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a connection's extra, such as region and endpoint, as environment variables.

    Raises `RequestError` for a setting that has no environment variable.
    """
    for field in sorted(extra.keys() - _FIELDS_OF_HOOK):
        log.warning("the extra of the connection %r has a field that is not used: %s", connection_id, field)
    service_fields = _nested_fields(connection_id, "service_config", extra.get("service_config"))
    s3_fields, sts_fields = (
        _s3_fields(connection_id, extra),
        _nested_fields(connection_id, "service_config.sts", service_fields.get("sts")),
    )
    variables = {
        "AWS_ENDPOINT_URL_S3": s3_fields.get("endpoint_url") or extra.get("endpoint_url"),
        "AWS_ENDPOINT_URL_STS": sts_fields.get("endpoint_url"),
        "AWS_REGION": extra.get("region_name"),
        # Keys in the worker's own files would take precedence over the served ones.
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_CONFIG_FILE": os.devnull,
        **_verify_variables(connection_id, extra.get("verify")),
        **_client_variables(connection_id, _nested_fields(connection_id, "config_kwargs", extra.get("config_kwargs"))),
        **_object_settings(connection_id, s3_fields),
    }
    return {name: str(value) for name, value in variables.items() if value}


def _s3_fields(connection_id: str, extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of the extra that are for S3 only (`service_config.s3`)."""
    services = _nested_fields(connection_id, "service_config", extra.get("service_config"))
    return _nested_fields(connection_id, "service_config.s3", services.get("s3"))


def _object_settings(connection_id: str, s3_fields: Mapping[str, Any]) -> dict[str, str]:
    """Return encryption and billing settings as environment variables.

    The settings have the names of `S3Hook`'s arguments: `requester_pays`, and `extra_args` with boto3's parameters.
    """
    from rescale.storage.s3.object_settings import VARIABLE_BY_PARAMETER

    variables: dict[str, str] = {}
    for name, value in _nested_fields(
        connection_id, "service_config.s3.extra_args", s3_fields.get("extra_args")
    ).items():
        if name in VARIABLE_BY_PARAMETER:
            variables[VARIABLE_BY_PARAMETER[name]] = str(value)
        elif (name, value) != ("SSECustomerAlgorithm", "AES256"):  # S3 has no other algorithm
            expected = f"one of {', '.join(sorted(VARIABLE_BY_PARAMETER))}"
            raise _unsupported_error(connection_id, f"service_config.s3.extra_args.{name}", expected, name)
    if s3_fields.get("requester_pays"):
        variables[VARIABLE_BY_PARAMETER["RequestPayer"]] = "requester"
    return variables


def _nested_fields(connection_id: str, field: str, value: Any) -> Mapping[str, Any]:
    """Return the fields of a nested JSON object.

    Raises `RequestError` for any other value, without showing it: it may be a password.
    """
    if not isinstance(value or {}, Mapping):
        raise _unsupported_error(connection_id, field, "fields and their values", f"a {type(value).__name__}")
    return value or {}


def _verify_variables(connection_id: str, verify: Any) -> dict[str, str]:
    if verify in (None, "", True):
        return {}
    if isinstance(verify, str):
        return {"AWS_CA_BUNDLE": verify}
    raise _unsupported_error(connection_id, "verify", "the path of a file with trusted certificates", verify)


def _client_variables(connection_id: str, settings: Mapping[str, Any]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for name, value in settings.items():
        if name == "proxies":
            proxies = _nested_fields(connection_id, "config_kwargs.proxies", value)
            variables |= {f"{scheme.upper()}_PROXY": url for scheme, url in proxies.items()}
        elif name in _CHECKSUM_SETTINGS:
            variables[f"AWS_{name.upper()}"] = value
        elif name == "s3":
            variables |= _addressing_variables(connection_id, _nested_fields(connection_id, "config_kwargs.s3", value))
        elif (name, value) != ("signature_version", "s3v4") and name not in _IGNORED_SETTINGS:
            raise _unsupported_error(connection_id, f"config_kwargs.{name}", "a setting that the steps support", value)
    return variables


def _addressing_variables(connection_id: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the addressing style as an environment variable; without it, boto3 chooses as `auto` does."""
    from rescale.storage.s3.s3_advice import ADDRESSING_VARIABLE

    variables_by_style: dict[Any, dict[str, str]] = {
        "auto": {},
        "virtual": {ADDRESSING_VARIABLE: "true"},
        "path": {ADDRESSING_VARIABLE: "false"},
    }
    variables: dict[str, str] = {}
    for name, value in settings.items():
        if name != "addressing_style":
            raise _unsupported_error(connection_id, f"config_kwargs.s3.{name}", "addressing_style", name)
        if value not in variables_by_style:
            raise _unsupported_error(connection_id, "config_kwargs.s3.addressing_style", "virtual, path or auto", value)
        variables |= variables_by_style[value]
    return variables


def _unsupported_error(connection_id: str, field: str, expected: str, actual: object) -> RequestError:
    return RequestError(
        f"the steps do not support a setting of the connection {connection_id!r}: {field}",
        expected=expected,
        found=actual,
        advice="remove it from the connection's extra",
    )
