"""Airflow plugin, found by its entry point, with which the api-server shows reports as tabs of their runs.

Every process of Airflow loads the plugin, so it imports the application only where it is served.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from rescale.airflow.reports.report_link import URL_PREFIX


class RescalePlugin(AirflowPlugin):
    """Plugin with the application for reports, and the tab that shows it."""

    name = "rescale"
    external_views: list[Any] = [  # noqa: RUF012
        {
            "name": "Report",
            "href": f"{URL_PREFIX}/report/{{DAG_ID}}/{{RUN_ID}}",
            "destination": "dag_run",
            "url_route": "rescale_report",
        }
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # Airflow reads it from instances only
        from rescale.airflow.reports.report_app import report_app

        return [{"name": "Rescale", "url_prefix": URL_PREFIX, "app": report_app()}]
