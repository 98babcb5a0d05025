"""The Spark master for steps that are processes of an Airflow worker.

The settings of the platform name the master, or an Airflow connection of type spark, as `SparkSubmitHook` reads it. The
process of the step is the driver itself; there is no `spark-submit`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import Connection

from rescale.airflow.connections.extra import extra_of
from rescale.airflow.settings import SparkSettings, settings
from rescale.options.spark_master import MASTER_FORMS, is_master_url, is_on_this_machine
from rescale.text.errors import RequestError

DEFAULT_MASTER = "local[*]"
"""Default Spark master: all cores of the worker."""

_ARGUMENTS_VARIABLE = "PYSPARK_SUBMIT_ARGS"
"""Environment variable with the arguments that PySpark starts its JVM with (`launch_gateway`)."""

_PROPERTY_BY_FIELD = {"queue": "spark.yarn.queue", "namespace": "spark.kubernetes.namespace"}
"""Fields of a connection's extra, and their Spark properties."""

_EXPECTED_BY_UNSUPPORTED_FIELD = {
    "keytab": "the worker's own ticket or keytab: log in there (kinit), or set spark.kerberos.keytab in its "
    "spark-defaults.conf",
    "principal": "the worker's own principal (spark.kerberos.principal in its spark-defaults.conf)",
}


class Spark(NamedTuple):
    """A Spark master URL, and the Spark properties that go with it."""

    master: str
    properties: Mapping[str, str]

    @property
    def is_cluster(self) -> bool:
        """Whether executors run on other machines than the worker."""
        return not is_on_this_machine(self.master)

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that pass the Spark properties to PySpark, before arguments that the worker has set."""
        if not self.properties:
            return {}
        arguments = [argument for name, value in self.properties.items() for argument in ("--conf", f"{name}={value}")]
        return {_ARGUMENTS_VARIABLE: f"{shlex.join(arguments)} {os.environ.get(_ARGUMENTS_VARIABLE, 'pyspark-shell')}"}


def platform_spark() -> Spark:
    """Return the Spark that the settings of the platform choose; all cores of the worker if they choose none.

    Raises the errors of `spark_of`.
    """
    spark_settings = settings().spark
    return Spark(DEFAULT_MASTER, {}) if spark_settings is None else spark_of(spark_settings)


def spark_of(spark_settings: SparkSettings) -> Spark:
    """Return the Spark that settings choose. Raises `RequestError` if a connection is missing or names no master."""
    if (connection_id := spark_settings.connection) is None:
        return Spark(spark_settings.master or DEFAULT_MASTER, {})
    connection = _spark_connection(connection_id)
    master = _master_of(connection)
    if not is_master_url(master):
        what, advice = "does not name a Spark master", "write it as the connection's host"
        raise _connection_error(connection_id, what, MASTER_FORMS, master, advice)
    return Spark(master, _spark_properties(connection_id, master, extra_of(connection_id, connection)))


def _spark_connection(connection_id: str) -> Connection:
    try:
        connection: Connection = Connection.get(connection_id)
    except AirflowNotFoundException:
        raise RequestError(
            f"the settings of the platform name a connection that does not exist: {connection_id!r} (spark.connection)",
            advice="create it in Airflow (Admin, Connections), or name another one",
        ) from None
    if connection.conn_type not in ("spark", "k8s"):
        expected, advice = "a connection of type spark", "name another one in the platform's settings"
        raise _connection_error(connection_id, "has the wrong type", expected, connection.conn_type, advice)
    return connection


def _master_of(connection: Connection) -> str:
    """Return the Spark master of a connection, by the rules of `SparkSubmitHook._resolve_connection`.

    If the connection was given as a URI, the scheme of the master is the type of the connection.
    """
    host, port = connection.host or "", connection.port
    is_master_url = connection.conn_type == "spark" and host and ("://" in host or not port)
    master = host if is_master_url else f"{connection.conn_type}://{host}"
    return f"{master}:{port}" if port else master


def _spark_properties(connection_id: str, master: str, extra: Mapping[str, Any]) -> dict[str, str]:
    """Return the Spark properties that the extra of a connection sets.

    Fields that only concern `spark-submit` are ignored.
    """
    if extra.get("deploy-mode", "client") != "client":
        expected, advice = "client", "remove deploy-mode from its extra"
        raise _connection_error(
            connection_id, "has a deploy-mode that steps do not support", expected, extra["deploy-mode"], advice
        )
    for field, expected in _EXPECTED_BY_UNSUPPORTED_FIELD.items():
        if extra.get(field):
            what = f"has a field in its extra that steps do not support: {field}"
            raise _connection_error(connection_id, what, expected, None, f"remove {field} from its extra")
    is_applicable_by_field = {"queue": master == "yarn", "namespace": master.startswith("k8s://")}
    return {
        _PROPERTY_BY_FIELD[field]: str(extra[field])
        for field in is_applicable_by_field
        if is_applicable_by_field[field] and extra.get(field)
    }


def _connection_error(connection_id: str, what: str, expected: str, actual: object, advice: str) -> RequestError:
    return RequestError(f"the connection {connection_id!r} {what}", expected=expected, found=actual, advice=advice)
