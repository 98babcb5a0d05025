"""Shows the report of a run to whoever may see the run: a small application in Airflow's api-server.

A request names a DAG and a run, never a place. Where the report lies is what the run itself has said (`report_link`),
the file has one name, and it is shown only while the plan of the run is the one that claims the target. The page comes
from storage, where others may write: so the browser is told to treat it as a stranger, without scripts, forms, network
or a place among Airflow's own pages.
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

from rescale.errors import RescaleError
from rescale.orchestration.connections.access import s3_store_of
from rescale.orchestration.reports.report_link import REPORT, ReportPlace, airflow_url
from rescale.storage.locations import is_s3
from rescale.storage.store import Store, open_store
from rescale.target.places import Places
from rescale.target.states import claim_on

_LARGEST = 4 * 1024 * 1024
"""Bytes of a page that is shown; ours are far smaller."""

_STYLE = re.compile(rb"<style>(.*?)</style>", re.DOTALL)

_POLICY = (
    "default-src 'none'; img-src data:; style-src {style}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; sandbox"
)

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}

_router = APIRouter()

MaySeeTheRun = Annotated[None, Depends(requires_access_dag("GET", DagAccessEntity.RUN))]


def report_app() -> FastAPI:
    app = FastAPI(title="Rescale", docs_url=None, redoc_url=None, openapi_url=None)
    app.include_router(_router)
    app.add_exception_handler(HTTPException, _refused)
    return app


@_router.get("/report/{dag_id}/{run_id:path}")
def report(dag_id: str, run_id: str, may: MaySeeTheRun, session: SessionDep) -> Response:  # noqa: ARG001
    """The page, as it lies beside the target of the run."""
    # Airflow's types take a row for a tuple; it is the one thing that was asked for.
    found: Any = session.scalars(XComModel.get_many(run_id=run_id, key=REPORT, dag_ids=dag_id, limit=1)).first()
    try:
        place = msgspec.convert(None if found is None else found.value, ReportPlace)
    except msgspec.ValidationError:
        raise HTTPException(HTTPStatus.NOT_FOUND, "there is no report of this run") from None
    try:
        page = _page(place)
    except RescaleError as error:
        raise HTTPException(HTTPStatus.BAD_GATEWAY, f"the report cannot be read from here: {error}") from None
    return Response(page, media_type="text/html; charset=utf-8", headers=_headers(page))


def _page(place: ReportPlace) -> bytes:
    """What lies in the one place of the report; one of our errors if that is not the report of the run's plan."""
    places = Places(place.target, place.digest)
    store = _store(place)
    claim = claim_on(place.target, store)
    if claim is None or claim.plan != place.digest or store.stat(places.report) is None:
        raise HTTPException(
            HTTPStatus.NOT_FOUND,
            f"{places.report} is gone: what the run had left was removed, or another run has taken its target",
        )
    return store.read_all(places.report, _LARGEST)[0]


def _store(place: ReportPlace) -> Store:
    if place.connection and is_s3(place.target):
        return s3_store_of(place.connection)
    return open_store(place.target)


def _headers(page: bytes) -> dict[str, str]:
    """The page may have the one style sheet that it has."""
    style = _STYLE.search(page)
    digest = base64.b64encode(hashlib.sha256(style[1]).digest()).decode() if style else None
    return _HEADERS | {"Content-Security-Policy": _POLICY.format(style=f"'sha256-{digest}'" if digest else "'none'")}


def _refused(request: Request, error: Exception) -> Response:
    """A sentence; to somebody with a browser who has not logged in, the way to do that."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == HTTPStatus.UNAUTHORIZED and "text/html" in request.headers.get("accept", ""):
        back = urlencode({"next": request.url.path})
        return RedirectResponse(airflow_url(f"/api/v2/auth/login?{back}"))
    return PlainTextResponse(f"{error.detail}\n", error.status_code, _headers(b""))
