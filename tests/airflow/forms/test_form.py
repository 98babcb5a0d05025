"""The schema of the form refuses every value that is invalid on its own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import ParamValidationError

from rescale.airflow.forms.form import Form, discard_form, plan_only_form, rescale_form
from rescale.airflow.forms.job_form import job_form
from support.filled_forms import PLACES, filled
from support.open_fields import OPEN_FIELDS


@pytest.mark.parametrize(
    "fields",
    [
        {"source": "savepoint-1a2b"},
        {"source": "ftp://host/save"},
        {"source": ""},
        {"source": None},
        {"target": "rescaled"},
        {"parallelism": 0},
        {"parallelism": 32769},
        {"parallelism": "abc"},
        {"parallelism": "7e2"},
        {"parallelism": "0"},
        {"parallelism": "-1"},
        {"parallelism": True},
        {"parallelism": 1.5},
        {"operators": "visits=3"},
        {"operators": 3},
        {"operators": ["visits"]},
        {"operators": ["visits="]},
        {"operators": ["visits=six"]},
        {"operators": ["=3"]},
        {"operators": {"visits": 3}},
        {"operators": {"visits": {}}},
        {"operators": {"visits": {"parallelism": 0}}},
        {"operators": {"visits": {"max_parallelism": 32769}}},
        {"operators": {"visits": {"paralelism": 3}}},
        {"operators": {"": {"parallelism": 3}}},
        {"max_parallelism": -1},
        {"format": "native"},
        {"proof": "none"},
        {"approval_minutes": 0},
        {"approval_minutes": 1e12},
        {"key_hashes": ["visits="]},
        {"renames": ["visits"]},
        {"renames": ["visits="]},
        {"allowed_prefixes": ["shared"]},
        {"moved": ["hdfs://n/old"]},
        {"operator_names": [1]},
        {"connection": 1},
        {"accept_unconditional_publish": "yes"},
    ],
    ids=str,
)
def test_invalid_value_is_refused_by_the_schema(fields: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        filled(**{**PLACES, **fields})


@pytest.mark.parametrize("missing", ["source", "target"])
def test_source_and_target_are_required(missing: str) -> None:
    with pytest.raises(ParamValidationError):
        filled(**{name: value for name, value in PLACES.items() if name != missing})


def test_first_fields_are_unfolded_and_folded_fields_are_optional() -> None:
    form = rescale_form()
    sections = [param.schema.get("section", "") for param in form.values()]
    assert tuple(form)[: sections.count("")] == OPEN_FIELDS
    assert sections[: sections.count("")] == [""] * sections.count("")
    assert len(dict.fromkeys(sections)) == 1 + sum(left != right for left, right in pairwise(sections))
    assert _required(form) == {"source", "target"}


def test_only_fields_without_a_default_are_marked_as_required() -> None:
    assert _required(plan_only_form()) == {"source", "target"}
    assert _required(discard_form()) == {"target"}
    assert _required(job_form()) == {"flink", "job", "target"}


def _required(form: Form) -> set[str]:
    """Return the fields that Airflow's form marks as required: those whose type does not allow null."""
    return {name for name, param in form.items() if "null" not in param.schema.get("type", "null")}


def test_every_field_has_a_title_and_a_description() -> None:
    for param in rescale_form().values():
        assert param.schema["title"]
        assert param.schema["description_md"].endswith(".")
