"""The form refuses what makes no sense of one value alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from rescale.airflow.forms.form import rescale_form
from support.filled_forms import PLACES, filled
from support.open_fields import OPEN_FIELDS


@pytest.mark.parametrize(
    "wrong",
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
def test_a_wrong_value_is_refused_by_the_schema(wrong: dict[str, Any]) -> None:
    with pytest.raises(ParamValidationError):
        filled(**{**PLACES, **wrong})


@pytest.mark.parametrize("missing", ["source", "target"])
def test_source_and_target_have_to_be_said(missing: str) -> None:
    with pytest.raises(ParamValidationError):
        filled(**{name: value for name, value in PLACES.items() if name != missing})


def test_what_a_first_user_needs_is_open_and_the_rest_is_not_required() -> None:
    form = rescale_form()
    sections = [param.schema.get("section", "") for param in form.values()]
    assert tuple(form)[: sections.count("")] == OPEN_FIELDS
    assert sections[: sections.count("")] == [""] * sections.count("")
    assert len(dict.fromkeys(sections)) == 1 + sum(left != right for left, right in pairwise(sections))
    for name, param in form.items():
        if param.schema.get("section"):
            assert "null" in param.schema.get("type", "null"), name


def test_every_field_has_a_title_and_says_what_it_means() -> None:
    for param in rescale_form().values():
        assert param.schema["title"]
        assert param.schema["description_md"].endswith(".")
