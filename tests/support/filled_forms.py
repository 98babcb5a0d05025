"""Filled forms."""

from __future__ import annotations

from typing import Any

from airflow.sdk.definitions.param import ParamsDict

from rescale.airflow.forms.form import rescale_form

PLACES = {"source": "s3://bucket/save", "target": "/mnt/rescaled"}


def filled(**values: Any) -> dict[str, Any]:
    """Return the Params of a run with these values, as a task gets them."""
    params = ParamsDict(rescale_form())
    params.update(values)
    return dict(params.validate())
