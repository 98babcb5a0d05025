"""The form refuses what makes no sense of one value alone."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import ParamValidationError

from support.filled_forms import PLACES, filled


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
