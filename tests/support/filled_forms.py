"""Params of filled forms."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.param import ParamsDict

from rescale.airflow.forms.form import Form, rescale_form
from rescale.airflow.forms.job_form import job_form

PLACES = {"source": "s3://bucket/save", "target": "/mnt/rescaled"}


def filled(**values: Any) -> dict[str, Any]:
    """Return the Params of a run with these values, as a task gets them."""
    return _filled(rescale_form(), values)


def filled_of_job(**values: Any) -> dict[str, Any]:
    """Return the Params of a run that rescales a job, with these values, as a task gets them."""
    return _filled(job_form(), values)


def _filled(form: Form, values: dict[str, Any]) -> dict[str, Any]:
    params = ParamsDict(form)
    params.update(values)
    return dict(params.validate())
