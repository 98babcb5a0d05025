"""The way from a task to the report of its run, which the api-server shows (`report_app`).

Where the report lies, and which connection reaches it, is an XCom of the task that planned: a link names the run alone.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import attrs
import msgspec
from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

REPORT = "rescale_report"
"""The key of the XCom that says where the report of a run lies."""

PREFIX = "/rescale"
"""Below this path of the api-server everything is ours."""


class ReportPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The target beside which the report lies, the digest of the plan that it is of, and the connection of the run."""

    target: str
    digest: str
    connection: str | None


@attrs.define()
class ReportLink(BaseOperatorLink):
    """A button on the page of a task. It leads somewhere as soon as the task `planned` has put a report."""

    name = "Report"
    planned: str

    def get_link(self, operator: Any, *, ti_key: Any) -> str:  # noqa: ARG002
        from airflow.sdk.execution_time.xcom import XCom

        dag_id, run_id = ti_key.dag_id, ti_key.run_id
        place = XCom.get_one(key=REPORT, dag_id=dag_id, task_id=self.planned, run_id=run_id, map_index=-1)
        return "" if place is None else report_url(dag_id, run_id)


def report_url(dag_id: str, run_id: str) -> str:
    """Where a person who may see the run finds its report."""
    return airflow_url(f"{PREFIX}/report/{quote(dag_id, safe='')}/{quote(run_id, safe='')}")


def airflow_url(path: str) -> str:
    """A path of the api-server as others reach it; the path alone where Airflow does not know its address."""
    return str(conf.get("api", "base_url", fallback="") or "").rstrip("/") + path
