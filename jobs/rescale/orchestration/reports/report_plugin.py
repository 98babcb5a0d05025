"""What Airflow finds by its entry point: the api-server shows reports.

Every process of Airflow loads it, so what it takes to show something is imported where something is shown.
"""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin

from rescale.orchestration.reports.report_link import PREFIX


class RescalePlugin(AirflowPlugin):
    name = "rescale"

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]  # it is read of instances alone
        from rescale.orchestration.reports.report_app import report_app

        return [{"name": "Rescale", "url_prefix": PREFIX, "app": report_app()}]
