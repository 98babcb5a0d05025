"""Assets that get an event when a result is published, so that other DAGs can be scheduled on them."""

from __future__ import annotations

from airflow.sdk import Asset

RESCALED_SAVEPOINT = Asset(name="rescaled_savepoint", uri="x-rescale://published", group="rescale")
"""Asset with one event per published result; the event's extra names result, certificate and shape.

A DAG that is scheduled on it must give both name and URI: `Asset("rescaled_savepoint")` is another asset, whose URI is
its name. The scheme starts with `x-`: for any other scheme, Airflow would import all providers that define schemes.
"""


def asset_of_window(dag_id: str, window_name: str) -> Asset:
    """Return the asset with one event per published result of a window."""
    return Asset(name=dag_id, uri=f"x-rescale://windows/{window_name}", group="rescale")
