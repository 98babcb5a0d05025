"""Application in Airflow's api-server that shows the report of a run to everybody who may see the run.

A request names a DAG, a run and perhaps a task, never a place. The place comes from an XCom of the run (`report_link`),
the name of the file is fixed, and the file is shown only while the plan of the run claims the target. The XCom of a run
that only plans holds the page itself. Other programs may write to storage and XComs, so the browser gets the page with
a strict policy: no scripts, no forms, no network. Only Airflow's own pages may frame it, as a tab of the run.
"""

from __future__ import annotations

import base64
import hashlib
import re
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import requires_access_dag
from airflow.models.xcom import XComModel
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import PlainTextResponse, RedirectResponse

from rescale.airflow.connections.access import s3_store_of
from rescale.airflow.reports.report_link import REPORT_KEY, ReportPage, ReportPlace, airflow_url
from rescale.runstate.places import Places
from rescale.runstate.states import claim_on
from rescale.storage.locations import is_s3
from rescale.storage.store import Store, open_store
from rescale.text.errors import RescaleError

_LARGEST_PAGE_BYTES = 4 * 1024 * 1024
"""Largest number of bytes of a page that are shown; our reports are far smaller."""

_STYLE_ELEMENT = re.compile(rb"<style>(.*?)</style>", re.DOTALL)

_CONTENT_POLICY = (
    "default-src 'none'; img-src data:; style-src {style}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox"
)

_SAFETY_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}

_router = APIRouter()

MaySeeTheRun = Annotated[None, Depends(requires_access_dag("GET", DagAccessEntity.RUN))]


def report_app() -> FastAPI:
    app = FastAPI(title="Rescale", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_router)
    app.add_exception_handler(HTTPException, _error_response)
    return app


@_router.get("/report/{dag_id}/{run_id:path}")
def report(
    dag_id: str,
    run_id: str,
    permission: MaySeeTheRun,  # noqa: ARG001
    session: SessionDep,
    task: str | None = None,
    map_index: int | None = None,
) -> Response:
    """Respond with the report of a run.

    If the run has several reports, `task` is the id of the task that planned, and `map_index` its map index; None
    matches any.
    """
    report_query = XComModel.get_many(
        run_id=run_id, key=REPORT_KEY, dag_ids=dag_id, task_ids=task, map_indexes=map_index, limit=1
    )
    # Airflow's type hints say that the row is a tuple, but it is the XCom itself.
    xcom: Any = session.scalars(report_query).first()
    xcom_value = None if xcom is None else xcom.value
    try:
        page = (
            _page_in_xcom(xcom_value)
            if isinstance(xcom_value, dict) and "page" in xcom_value
            else _page_in_store(xcom_value)
        )
    except ValueError:  # msgspec's errors are `ValueError`s, too
        raise HTTPException(HTTPStatus.NOT_FOUND, "there is no report of this run") from None
    except RescaleError as error:
        raise HTTPException(HTTPStatus.BAD_GATEWAY, f"the api-server cannot read the report: {error}") from None
    return Response(page, media_type="text/html; charset=utf-8", headers=_response_headers(page))


def _page_in_xcom(xcom_value: Any) -> bytes:
    """Return the page in the XCom of a run that only planned. Raises `ValueError` if it is not such a page."""
    return msgspec.convert(xcom_value, ReportPage).html(_LARGEST_PAGE_BYTES)


def _page_in_store(xcom_value: Any) -> bytes:
    """Return the report beside the target. Raises `HTTPException` if it is missing, or is about another plan.

    Raises `ValueError` if the XCom does not name a place.
    """
    place = msgspec.convert(xcom_value, ReportPlace)
    places = Places(place.target, place.digest)
    store = _report_store(place)
    claim = claim_on(place.target, store)
    if claim is None or claim.plan_digest != place.digest or store.stat(places.report) is None:
        raise HTTPException(
            HTTPStatus.NOT_FOUND,
            f"{places.report} no longer exists: it was discarded, or another run has claimed the target",
        )
    return store.read_all(places.report, _LARGEST_PAGE_BYTES)[0]


def _report_store(place: ReportPlace) -> Store:
    if place.connection and is_s3(place.target):
        return s3_store_of(place.connection)
    return open_store(place.target)


def _response_headers(page: bytes) -> dict[str, str]:
    """Return the response headers, with a policy that allows only the page's own style sheet."""
    style_match = _STYLE_ELEMENT.search(page)
    digest = base64.b64encode(hashlib.sha256(style_match[1]).digest()).decode() if style_match else None
    return _SAFETY_HEADERS | {
        "Content-Security-Policy": _CONTENT_POLICY.format(style=f"'sha256-{digest}'" if digest else "'none'")
    }


def _error_response(request: Request, error: Exception) -> Response:
    """Respond with the error as text, or redirect a browser without a session to the login page."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == HTTPStatus.UNAUTHORIZED and "text/html" in request.headers.get("accept", ""):
        query_text = f"?{request.url.query}" if request.url.query else ""
        return_query = urlencode({"next": f"{request.url.path}{query_text}"})
        return RedirectResponse(airflow_url(f"/api/v2/auth/login?{return_query}"))
    return PlainTextResponse(f"{error.detail}\n", error.status_code, _response_headers(b""))
