"""Link from a task to the report of its rescale, which the api-server shows (`report_app`).

The link names the task that plans. An XCom of that task says where the report is (`ReportPlace`). A run that only plans
writes nothing to storage, so its XCom holds the page itself (`ReportPage`).
"""

from __future__ import annotations

import base64
import zlib
from typing import Any
from urllib.parse import quote

import attrs
import msgspec
from airflow.providers.common.compat.sdk import conf
from airflow.sdk import BaseOperatorLink

from rescale.airflow.steps.earlier_tasks import sibling_task_id

REPORT_KEY = "rescale_report"
"""Key of the XCom that holds the report of a run, or its place."""

URL_PREFIX = "/rescale"
"""Path of our application in the api-server."""


class ReportPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Place of a report: the target of the run, the digest of its plan, and the connection for access to the target."""

    target: str
    digest: str
    connection: str | None


class ReportPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A report: HTML, compressed by zlib, in Base64. Its size is limited (`report_page.LARGEST_REPORT_BYTES`)."""

    page: str

    @classmethod
    def compress(cls, html: bytes) -> ReportPage:
        return cls(base64.b64encode(zlib.compress(html, 9)).decode())

    def html(self, most_bytes: int) -> bytes:
        """Return the first `most_bytes` of the page. Raises `ValueError` if it cannot be decompressed."""
        try:
            return zlib.decompressobj().decompress(base64.b64decode(self.page, validate=True), most_bytes)
        except zlib.error as error:
            raise ValueError(str(error)) from None


@attrs.define()
class ReportLink(BaseOperatorLink):
    """Button on the page of a task, active as soon as the task that plans has stored a report.

    `plan_task_id` is the id of the task that plans, without its task group; None if the button is on that task's page.
    """

    name = "Report"
    plan_task_id: str | None = None

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        from airflow.sdk.execution_time.xcom import XCom

        dag_id, run_id, task_id, map_index = ti_key.dag_id, ti_key.run_id, ti_key.task_id, ti_key.map_index
        if self.plan_task_id is not None:
            task_id, map_index = sibling_task_id(task_id, self.plan_task_id), -1
        place = XCom.get_one(key=REPORT_KEY, dag_id=dag_id, task_id=task_id, run_id=run_id, map_index=map_index)
        return "" if place is None else report_url(dag_id, run_id, task_id, map_index)


def report_url(dag_id: str, run_id: str, plan_task_id: str, map_index: int = -1) -> str:
    """Return the address of the report that the task `plan_task_id` of a run has stored.

    `map_index` is the index of a task that was mapped; -1 for any other task.
    """
    run_path = f"{quote(dag_id, safe='')}/{quote(run_id, safe='')}"
    map_index_query = "" if map_index < 0 else f"&map_index={map_index}"
    return airflow_url(f"{URL_PREFIX}/report/{run_path}?task={quote(plan_task_id, safe='')}{map_index_query}")


def airflow_url(path: str) -> str:
    """Return the public address of a path of the api-server, or only the path if Airflow does not know its address."""
    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/") + path
